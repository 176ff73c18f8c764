"""The names of a run's files, for those who need not read them."""

RECORDS, RANKINGS, SUMMARY, DONE = "records.parquet", "rankings.parquet", "summary.json", "DONE"
TEXTS = "texts.parquet"
RUN_FILES = (
    *(RECORDS, RANKINGS, SUMMARY, TEXTS, DONE),
    *("summary.csv", "timings.json", "config.yaml", "environment.json"),
)
