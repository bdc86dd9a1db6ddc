// Sorting, downloads and the theme switch; the page reads the same without them.
"use strict";
const files = JSON.parse(document.getElementById("files").textContent);

for (const button of document.querySelectorAll("button[data-file]")) {
  button.addEventListener("click", () => {
    const name = button.dataset.file;
    const type = name.endsWith(".csv") ? "text/csv" : "application/json";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([files[name]], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
}

// Cells carry their value in data-value: a number, a text, or nothing, which always comes last.
function compare(a, b, direction) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const x = Number(a), y = Number(b);
  const order = Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
  return direction * order;
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
    const value = (row) => row.cells[column].dataset.value ?? "";
    const rows = [...table.tBodies[0].rows].sort((a, b) => compare(value(a), value(b), direction));
    table.tBodies[0].append(...rows);
  }));
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
});
