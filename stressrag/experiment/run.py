"""Carries a plan out in its folder: block by block, each computed once, the result in one order."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stressrag import __version__
from stressrag.collection import Collection, load_dataset
from stressrag.errors import StressragError
from stressrag.experiment.conditions import Condition, poison_key
from stressrag.experiment.engine import Engine, poison_id
from stressrag.experiment.latency import probe
from stressrag.experiment.plan import Plan, block_size, families
from stressrag.records.files import cannot_write, file_hash, write_atomically, write_json, write_text
from stressrag.records.folder import DONE, RANKINGS, RECORDS, SUMMARY, TEXTS, Run, open_run
from stressrag.records.names import RUN_FILES
from stressrag.records.replacing import BEFORE, LOCK, held, replacing
from stressrag.records.schema import texts_schema
from stressrag.report.summary import summarize, summary_csv

_BLOCKS = "blocks"
_IDENTITY = "environment.json"


def execute(plan: Plan) -> Run:
    """Compute what is missing of a plan and return its finished run.

    Raises
    ------
    StressragError
        When the folder holds another run, another process works in it, or it cannot be written.
    """
    folder = plan.folder
    with _locked(folder), replacing(folder, _WRITTEN, DONE, plan.settings.overwrite):
        if (folder / DONE).exists():
            finished = open_run(folder)
            if finished.plan_hash != plan.hash:
                raise _another(folder)
            shutil.rmtree(folder / _BLOCKS, ignore_errors=True)  # where a run was killed in its last moment
            return finished
        _Execution(plan, folder).go()
    return open_run(folder)


class _Execution:
    def __init__(self, plan: Plan, folder: Path):
        self.plan, self.folder = plan, folder
        self.collections: dict[Any, Collection] = {}
        self.timings: dict[str, Any] = {"stages_seconds": defaultdict(float), "latency_ms": {}}
        self.notes: dict[str, dict[str, int]] = {}
        self.payloads: dict[str, str] = {}
        self.tty = sys.stderr.isatty()

    def say(self, text: str) -> None:
        """One line of progress, overwritten on a terminal, silent elsewhere."""
        if self.tty:
            print(f"\r\033[K{text} …", end="", file=sys.stderr, flush=True)

    def go(self) -> None:
        for dataset in dict.fromkeys(c.dataset for c in self.plan.conditions):
            self.say(f"reading {dict(dataset)['name']}")
            self.collections[dataset] = load_collection(dict(dataset))
        self._claim()
        done: list[tuple[Path, Path]] = []
        for family in families(self.plan.conditions):
            done.extend(self._family(family))
        self._finish(done)

    def _claim(self) -> None:
        """Mark the folder as this plan's, or check that it is, on the same data."""
        hashes = {dict(d)["name"]: c.hashes for d, c in self.collections.items()}
        identity = {"plan": self.plan.hash, "stressrag": __version__, "collections": hashes}
        path = self.folder / _IDENTITY
        if path.exists():
            before = json.loads(path.read_text("utf-8"))
            if before["plan"] != identity["plan"]:
                raise _another(self.folder)
            if before["collections"] != identity["collections"]:
                raise StressragError(
                    f"{self.folder}: the collection has changed since this run began; use overwrite=true"
                )
            if before["stressrag"] != __version__:
                raise StressragError(
                    f"{self.folder} was begun by stressrag {before['stressrag']}, this is {__version__}; "
                    "start afresh with overwrite=true"
                )
            return
        write_text(self.folder / "config.yaml", _config_yaml(self.plan))
        write_json(path, {**identity, **_environment()})

    def _family(self, family: tuple[Condition, ...]) -> list[tuple[Path, Path]]:
        """Compute a family's missing blocks; the paths of all its blocks in order."""
        collection = self.collections[family[0].dataset]
        n, size = len(collection.evaluated), block_size(family)
        name = f"{self.plan.conditions.index(family[0]):04d}"
        todo: list[tuple[int, int]] = []
        paths = []
        for start in range(0, n, size):
            stop = min(n, start + size)
            pair = self._paths(name, start, stop)
            paths.append(pair)
            if not _readable(pair):
                todo.append((start, stop))
        meta = self.folder / _BLOCKS / f"{name}.json"
        poison = self.folder / _BLOCKS / f"{name}.poison"
        if todo or not _is_json(meta) or not (poison.exists() or not self.plan.settings.texts):
            engine = Engine(collection, family, self.plan.metrics, self.say)
            fit = dict(engine.timings)
            self._compute(engine, name, todo, n)
            notes = {
                "notes": {c.id: dict(engine.table.poison[c.recipe].notes) for c in family},
                "payloads_sha256": engine.payload_hash,
                "fit": fit,
                "latency_ms": probe(engine, self.plan.settings.latency_sample),
            }
            if self.plan.settings.texts:
                table = _poison_texts(engine, collection.evaluated.ids)
                write_atomically(poison, lambda part: _write_block(table, part))
            write_json(meta, notes)
        return paths

    def _paths(self, name: str, start: int, stop: int) -> tuple[Path, Path]:
        base = self.folder / _BLOCKS / f"{name}-{start:07d}-{stop:07d}"
        return base.with_suffix(".rankings"), base.with_suffix(".records")

    def _compute(self, engine: Engine, name: str, todo: Sequence[tuple[int, int]], n: int) -> None:
        from tqdm import tqdm

        self.say("")
        if self.tty:
            print("\r\033[K", end="", file=sys.stderr)
        total = sum(stop - start for start, stop in todo) * len(engine.family)
        label = "+".join(dict.fromkeys(c.retriever.label for c in engine.family))
        with tqdm(
            total=total, desc=label, unit="row", unit_scale=True, disable=not self.tty, leave=False
        ) as bar:
            for (start, stop), result in _results(engine, todo, self.plan.settings.workers):
                self._save(self._paths(name, start, stop), *result)
                bar.update((stop - start) * len(engine.family))

    def _save(
        self, paths: tuple[Path, Path], records: pa.Table, rankings: pa.Table, seconds: dict[str, float]
    ) -> None:
        """Keep one block; its records come last, since they say that it is whole."""
        write_json(paths[1].with_suffix(".seconds"), seconds)
        write_atomically(paths[0], lambda part: _write_block(rankings, part))
        write_atomically(paths[1], lambda part: _write_block(records, part))

    def _finish(self, blocks: Sequence[tuple[Path, Path]]) -> None:
        """Put the blocks together in the order of the plan, sum up, and mark the run as done."""
        order = {c.id: i for i, c in enumerate(self.plan.conditions)}
        records = _in_order([pq.read_table(records) for _, records in blocks], order)
        write_atomically(self.folder / RECORDS, lambda part: pq.write_table(records, part))
        rankings = _in_order([pq.read_table(rankings) for rankings, _ in blocks], order)
        write_atomically(self.folder / RANKINGS, lambda part: pq.write_table(rankings, part))
        if self.plan.settings.texts:
            texts = self._texts(rankings)
            write_atomically(
                self.folder / TEXTS, lambda part: pq.write_table(texts, part, compression="zstd")
            )
        self._collect_timings(blocks)
        content = {dict(d)["name"]: c.hashes["content"] for d, c in self.collections.items()}
        warnings = {dict(d)["name"]: list(c.notes) for d, c in self.collections.items() if c.notes}
        summary = summarize(self.plan, records, content, self.payloads, self.notes, warnings)
        write_json(self.folder / SUMMARY, summary)
        write_text(self.folder / "summary.csv", summary_csv(summary))
        write_json(self.folder / "timings.json", self.timings)
        names = (RECORDS, RANKINGS, SUMMARY, *([TEXTS] if self.plan.settings.texts else []))
        hashes = {name: file_hash(self.folder / name) for name in names}
        write_json(self.folder / DONE, {"plan": self.plan.hash, "sha256": hashes})
        shutil.rmtree(self.folder / _BLOCKS, ignore_errors=True)

    def _texts(self, rankings: pa.Table) -> pa.Table:
        """The queries, and the documents that stand in a ranking, in the order of the collections."""
        rows: list[tuple[str, str | None, str, str, str]] = []
        ranked = {c: set[str]() for c in rankings["condition"].unique().to_pylist()}
        for name, doc in zip(rankings["condition"].to_pylist(), rankings["doc_id"].to_pylist(), strict=True):
            ranked[name].add(doc)
        seen: set[tuple[str, str]] = set()
        for dataset, collection in self.collections.items():
            here = [c for c in self.plan.conditions if c.dataset == dataset]
            shown = set[str]().union(*(ranked.get(c.id, ()) for c in here))
            q, d = collection.evaluated, collection.corpus
            rows += [("query", None, i, "", t) for i, t in zip(q.ids, q.texts, strict=True)]
            rows += [
                ("document", None, i, d.titles[n], d.bodies[n])
                for n, i in enumerate(d.ids)
                if i in shown and ("document", i) not in seen
            ]
            seen |= {("document", i) for i in shown}
        kept: dict[str, set[str]] = {}
        for c in self.plan.conditions:
            if key := self.plan.poison_key(c):
                kept.setdefault(key, set()).update(ranked.get(c.id, ()))
        for path in sorted((self.folder / _BLOCKS).glob("*.poison")):
            table = pq.read_table(path)
            for key, name, text in zip(
                *(table[n].to_pylist() for n in ("attack", "id", "text")), strict=True
            ):
                if name in kept.get(key, ()):
                    rows.append(("poison", key, name, "", text))
                    kept[key].discard(name)
        schema = texts_schema()
        arrays = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _collect_timings(self, blocks: Sequence[tuple[Path, Path]]) -> None:
        stages: dict[str, float] = defaultdict(float)
        for _, path in blocks:
            for stage, seconds in json.loads(path.with_suffix(".seconds").read_text("utf-8")).items():
                stages[stage] += seconds
        for path in sorted((self.folder / _BLOCKS).glob("*.json")):
            meta = json.loads(path.read_text("utf-8"))
            for stage, seconds in meta["fit"].items():
                stages[stage] += seconds
            self.timings["latency_ms"].update(meta["latency_ms"])
            self.notes.update(meta["notes"])
            self.payloads.update(meta["payloads_sha256"])
        self.timings["stages_seconds"] = dict(sorted(stages.items()))


def _in_order(tables: Sequence[pa.Table], order: dict[str, int]) -> pa.Table:
    """All rows by condition; blocks of one condition come in query order already."""
    whole = pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()
    rank = pa.array([order[i] for i in whole["condition"].chunk(0).dictionary.to_pylist()], pa.int32())
    keys = rank.take(whole["condition"].chunk(0).indices)
    place = pa.array(range(len(whole)), pa.int64())
    sorter = pa.table({"condition": keys, "place": place})
    indices = pa.compute.sort_indices(sorter, sort_keys=[("condition", "ascending"), ("place", "ascending")])
    return _fresh_dictionaries(whole.take(indices))


def _fresh_dictionaries(table: pa.Table) -> pa.Table:
    """Dictionary columns encoded anew from the sorted rows, so that block borders leave no trace."""
    columns = []
    for field in table.schema:
        column = table[field.name].combine_chunks()
        if pa.types.is_dictionary(field.type):
            column = column.cast(pa.string()).dictionary_encode()
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=table.schema)


def _results(
    engine: Engine, todo: Sequence[tuple[int, int]], workers: int
) -> Iterator[tuple[tuple[int, int], tuple[pa.Table, pa.Table, dict[str, float]]]]:
    """Each block's result, in any order."""
    if workers == 1 or len(todo) < 2:
        for start, stop in todo:
            yield (start, stop), engine.run_block(start, stop)
        return
    import joblib

    with tempfile.TemporaryDirectory(prefix="stressrag-") as temporary:
        path = Path(temporary) / "engine"
        try:
            joblib.dump(engine, path)
        except OSError as e:
            raise cannot_write(path, e) from e
        except Exception as e:
            raise StressragError(
                f"this retriever cannot be sent to worker processes ({e}); use workers=1"
            ) from e
        jobs = (joblib.delayed(_work)(path, start, stop) for start, stop in todo)
        # Processes that start from nothing: a forked child would inherit the lock and OpenMP's threads.
        yield from joblib.Parallel(n_jobs=workers, backend="loky", return_as="generator_unordered")(jobs)


_LOADED: dict[Path, Engine] = {}


def _work(
    path: Path, start: int, stop: int
) -> tuple[tuple[int, int], tuple[pa.Table, pa.Table, dict[str, float]]]:
    import joblib

    if path not in _LOADED:
        _LOADED.clear()
        _LOADED[path] = joblib.load(path, mmap_mode="r")
    return (start, stop), _LOADED[path].run_block(start, stop)


def load_collection(dataset: dict[str, str | None]) -> Collection:
    """The collection that a condition names, with at least one judged query."""
    name = str(dataset["name"])
    files = {part: dataset[part] for part in ("path", "corpus", "queries", "qrels")}
    collection = load_dataset(name, split=dataset["split"], **files)  # type: ignore[arg-type]
    if not len(collection.evaluated):
        raise StressragError(f"{name}: no query of the {collection.split} split is judged")
    return collection


def _write_block(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, write_page_checksum=True)  # so that a damaged block is known by itself


def _poison_texts(engine: Engine, ids: Sequence[str]) -> pa.Table:
    """Every poison document of a family, by the key of its recipe and its id."""
    rows = [
        (poison_key(recipe), poison_id(ids[q], n), text)
        for recipe, poison in engine.table.poison.items()
        if not recipe.clean
        for q, texts in enumerate(poison.texts)
        for n, text in enumerate(texts)
    ]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table([pa.array(c, pa.string()) for c in columns], ["attack", "id", "text"])


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _readable(pair: tuple[Path, Path]) -> bool:
    try:
        for path in pair:
            pq.read_table(path, page_checksum_verification=True)
    except (OSError, ValueError, pa.ArrowException):
        return False
    return _is_json(pair[1].with_suffix(".seconds"))


def _config_yaml(plan: Plan) -> str:
    import yaml

    value = {
        "command": ["python", "-m", "stressrag", plan.verb, *plan.words],
        "plan": plan.hash,
        "metrics": list(plan.metrics),
        "conditions": [{"id": c.id, **c.config()} for c in plan.conditions],
    }
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


def _environment() -> dict[str, Any]:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    packages = {}
    for name in (
        "numpy",
        "scipy",
        "scikit-learn",
        "pyarrow",
        "ir-measures",
        "rank-bm25",
        "sentence-transformers",
    ):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"python": platform.python_version(), "platform": platform.platform(), "packages": packages}


def _another(folder: Path) -> StressragError:
    return StressragError(
        f"{folder} holds another run; choose another output_dir, or overwrite=true to replace it"
    )


_WRITTEN = (*RUN_FILES, _BLOCKS, "report.html", "report.md")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder, and leave no trace in it of a run that failed before its first block."""
    _refuse_foreign(folder)
    made = [p for p in (folder, *folder.parents) if not p.exists()]
    with held(folder):
        try:
            yield
        finally:
            _tidy(folder, made)


def _refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds something else than a run: its files would be overwritten."""
    try:
        names = {p.name for p in folder.iterdir()} if folder.is_dir() else set()
    except OSError as e:
        raise cannot_write(folder, e) from e
    ours = {LOCK, "config.yaml", BEFORE}
    if _IDENTITY not in names and any(n not in ours and not n.endswith(".part") for n in names):
        raise StressragError(f"{folder} holds files but no run; choose a new or empty output_dir")


def _tidy(folder: Path, made: Sequence[Path]) -> None:
    """Take away what a run leaves that failed before its first block, with the folders made for it."""
    names = {p.name for p in folder.iterdir()} if folder.is_dir() else {_BLOCKS}
    if names <= {LOCK, "config.yaml", _IDENTITY}:
        for name in names:
            (folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # somebody has put a file there, or it is the working folder
            for path in made or [folder]:
                path.rmdir()
