"""job.json takes whatever an error says."""

from __future__ import annotations

from batchscout.measure.outcome import Outcome
from batchscout.run.job import Job, JobRecord, read_records
from batchscout.search.protocol import Point


def test_an_error_that_names_no_text_is_written_and_read(tmp_path):
    job = Job(
        job_id="b64-lr0.0004-s0", index=0, kind="run", point=Point(64, 4e-4), seed=0, signature="s", config={},
        created=0.0, explanation="listed",
    )  # fmt: skip
    record = JobRecord(job)
    record.finish(Outcome.FAILED, "exception", "no such file: data-\udcff.bin <b>\n🚀", 1.0)
    record.save(tmp_path)
    [found] = read_records(tmp_path)
    assert found.message == "no such file: data-\\udcff.bin <b>\n🚀"
    found.message.encode()
