"""What each figure of the page says, for those who see it for the first time."""

CAPTIONS = {
    "mountain": "The same progress per sample takes a different time. Each line is a job at its batch size's "
    "best learning rate, a dot the crossing of the target; dotted lines never reached it.",
    "laws": "What each batch size needs. Large dots: its best learning rate, with the 90% interval; small "
    "dots: the other rates; a ring: the recommendation; triangles: bounds of what never reached the target; "
    "hollow: the speed of its updates; "
    "line and band: the fitted law and its 90% interval.",
    "learning_rate": "Every setting that was tried. Frames mark the best learning rate of each batch size; > "
    "means stopped or capped below the target, div diverged, oom infeasible, fail failed.",
    "phases": "The parts of the training clock, per 1,000 samples, without warm-up updates.",
    "timeline": "Each bar is a job, with its batch size. Thin grey: waiting in the queue. Hatched: stopped "
    "early or capped. Framed: diverged, infeasible, failed or cancelled.",
    "answers": "What would have been recommended after each job that ended.",
}
#: Largest width on the page, in rem.
WIDTHS = {"mountain": 68, "laws": 70, "learning_rate": 46, "phases": 42, "timeline": 68, "answers": 60}
