"""Tables of an aligned evaluation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stressrag.aligned.controls import EVENTS
from stressrag.aligned.records import AXES, NO_DEFENSE
from stressrag.aligned.split_counts import COUNTS
from stressrag.aligned.versus import named
from stressrag.report.aligned_rows import constant, merged, ordered, place_names
from stressrag.report.cells import interval, p_text
from stressrag.report.labels import percent
from stressrag.report.tables import Table
from stressrag.report.visible import visible

if TYPE_CHECKING:
    from stressrag.aligned.score import Evaluation

Row = Mapping[str, Any]


def tables(e: Evaluation) -> list[Table]:
    """All tables that there is data for; the first is open."""
    made = [
        _measures(e),
        _detectors(e),
        _rankings(e),
        _rates(e),
        _pairs(e),
        _split(e),
        _controls(e),
        _exposure(e),
        _utility(e),
        _bounds(e),
    ]
    return [t for t in made if t.rows]


def _cell(value: Any) -> str:
    return "-" if value in ("", None) else visible(value)


def _value(r: Row, name: str, sign: bool = False) -> str:
    value, ends = r.get(name), r["intervals"].get(name)
    return _with(value, ends, sign)


def _with(value: float | None, ends: Sequence[float | None] | None, sign: bool = False) -> str:
    if value is None:
        return "-"
    text = f"{value:+.3f}" if sign and value else f"{value:.3f}"
    if ends is None or ends[0] is None or ends[1] is None:
        return text
    return f"{text} {interval('', ends)}"


def _measures(e: Evaluation) -> Table:
    rows = merged(ordered(e.rows))
    vary = place_names(e.rows)
    head = [
        *vary,
        "method",
        "label",
        "n",
        "poisoned",
        "defended",
        "prevented P",
        "introduced J",
        "net N",
        "clean change H",
        "contrast Γ",
        "McNemar p",
        "cluster p",
    ]
    body = [
        [
            *(_cell(r[a]) for a in vary),
            visible(named(r["method"])),
            visible(label),
            str(r["n"]),
            _value(r, "r_p0"),
            _value(r, "r_p1"),
            _value(r, "P"),
            _value(r, "J"),
            _value(r, "N", True),
            _value(r, "H", True),
            _value(r, "Gamma", True),
            "-" if r.get("mcnemar_p") is None else p_text(r["mcnemar_p"]),
            "-" if r.get("cluster_p") is None else p_text(r["cluster_p"]),
        ]
        for r, label in rows
    ]
    shared = constant(e.rows)
    note = (
        (f"All rows: {shared}. " if shared else "")
        + "Fractions of the n queries whose label is known in all four conditions. P: target-positive without"
        " the defense only; J: with it only; N = P - J; H: change on clean retrieval, above 0 does harm; Γ ="
        " N + H, which can be above 0 by harm alone."
    )
    return Table("Prevented and introduced", note, head, body, len(vary) + 2, True)


def _rankings(e: Evaluation) -> Table:
    """For each setting the defenses from fewest target-positive answers on, under each label."""
    cells: dict[Any, dict[str, list[tuple[float, str]]]] = defaultdict(lambda: defaultdict(list))
    for r in e.rows:
        if r["method"] == NO_DEFENSE or r["r_p1"] is None:
            continue
        place = tuple(r[a] for a in (*AXES, "budget"))
        some = cells[place][r["label"]]
        if not some:
            some.append((r["r_p0"], "no defense"))
        some.append((r["r_p1"], r["method"]))
    vary = place_names(e.rows)
    rows = []
    for place, by_label in cells.items():
        named = dict(zip((*AXES, "budget"), place, strict=True))
        for label, some in by_label.items():
            told = " < ".join(
                " = ".join(visible(m) for m in members) + f" ({percent(rate)})"
                for rate, members in _tied(some)
            )
            rows.append([*(_cell(named[a]) for a in vary), visible(label), told])
    note = (
        "From the fewest target-positive answers under poisoned retrieval on; differences may be chance, see"
        " method against method."
    )
    return Table(
        "Ranking of defenses under each label", note, [*vary, "label", "ranking"], rows, len(vary) + 2, True
    )


def _tied(some: Sequence[tuple[float, str]]) -> list[tuple[float, list[str]]]:
    out: dict[float, list[str]] = defaultdict(list)
    for rate, method in sorted(some):
        out[rate].append(method)
    return sorted(out.items())


def _rates(e: Evaluation) -> Table:
    vary = place_names(e.rows)
    names = [f"{event}_{c}" for event in ("correct", "abstains") for c in ("c0", "p0", "c1", "p1")]
    rows = [
        [
            *(_cell(r[a]) for a in vary),
            visible(r["method"]),
            visible(r["label"]),
            _value(r, "r_c0"),
            _value(r, "r_c1"),
            _value(r, "prevention_rate"),
            *(_value(r, n) for n in names),
        ]
        for r in e.rows
    ]
    words = {"c0": "clean", "p0": "poisoned", "c1": "clean, defended", "p1": "poisoned, defended"}
    told = [f"{'correct' if n.startswith('c') else 'abstains'}: {words[n[-2:]]}" for n in names]
    head = [*vary, "method", "label", "target: clean", "target: clean, defended", "prevention rate", *told]
    return Table(
        "Correctness, abstention and clean targets",
        "Prevention rate: P over the poisoned rate. Correctness goes by the same label.",
        head,
        rows,
        len(vary) + 2,
    )


def _pairs(e: Evaluation) -> Table:
    vary = place_names(e.comparisons)
    rows = [
        [
            *(_cell(r[a]) for a in vary),
            r["condition"],
            visible(r["method"]),
            visible(r["against"]),
            visible(r["label"]),
            f"{r['n']}/{r['n_queries']}",
            _with(r["difference"], r["interval"], True),
            str(r["only_method"]),
            str(r["only_against"]),
            p_text(r["mcnemar_p"]),
            p_text(r["p_holm"]),
            "-" if r["cluster_p"] is None else p_text(r["cluster_p"]),
            "-" if r["n"] == r["n_queries"] else f"[{r['bounds'][0]:+.2f} {r['bounds'][1]:+.2f}]",
        ]
        for r in e.comparisons
    ]
    head = [
        *vary,
        "retrieval",
        "method",
        "against",
        "label",
        "n",
        "difference",
        "only method",
        "only against",
        "McNemar p",
        "Holm p",
        "cluster p",
        "bounds",
    ]
    note = (
        "Target-positive rate of the method less that of the other, over queries whose label is known on both"
        " sides; the bounds are over all."
    )
    return Table("Method against method", note, head, rows, len(vary) + 4)


def _controls(e: Evaluation) -> Table:
    vary = place_names(e.controls)
    rows = [
        [
            *(_cell(r[a]) for a in vary),
            visible(r["method"]),
            visible(r["label"]),
            *("not available" if r[n] is None else f"{r[n]['count']}/{r[n]['n']}" for n in EVENTS),
        ]
        for r in e.controls
    ]
    note = (
        "Counts over the queries where the event is known: dependent, sufficient and redundant over"
        " target-positive answers, suppressed over strict cases. Strict: positive with legitimate and"
        " injected evidence, negative without either. Not available: its control was not saved. Newly"
        " induced: positive poisoned, negative clean. Injection dependent: negative once all poison is"
        " removed (own: only the query's own); new: among newly induced. Co retrieved: support and poison in"
        " the context. Redundant: positive whichever single poison passage is left out."
    )
    return Table(
        "Removal controls",
        note,
        [*vary, "method", "label", *(n.replace("_", " ") for n in EVENTS)],
        rows,
        len(vary) + 2,
    )


def _split(e: Evaluation) -> Table:
    """Split knowledge, from candidates to what each defense leaves."""
    some = [r for r in e.rows if r.get("split_knowledge")]
    vary = place_names(some)
    rows = [
        [
            *(_cell(r[a]) for a in vary),
            visible(r["method"]),
            visible(r["label"]),
            *("-" if (n := r["split_knowledge"][name]) is None else str(n) for name in COUNTS),
        ]
        for r in some
    ]
    note = (
        "Counts of queries. Candidates: triples attacked. Co retrieved: legitimate passage A and injected"
        " passage B both in the context. Positives: undefended answers that give the target; strict: those of"
        " them that need A and B (with either or both left out the answer is negative); newly induced: and"
        " negative on clean retrieval. Suppressed: strict ones that the defense makes negative; introduced:"
        " positive with the defense only; final: positive with the defense."
    )
    head = [*vary, "method", "label", *(n.replace("_", " ") for n in COUNTS)]
    return Table("Split knowledge", note, head, rows, len(vary) + 2)


def _detectors(e: Evaluation) -> Table:
    """Detectors of poisoned contexts: what they flag, and how sure their threshold is."""
    vary = place_names(e.detectors)
    rows = [
        [
            *(_cell(r[a]) for a in vary),
            visible(r["detector"]),
            f"{r['rate']}%",
            _with(r["realized"], (r["realized_low"], r["realized_high"])),
            f"{r['intercepted']}/{r['counted']}",
            _with(r["interception"], (r["interception_low"], r["interception_high"])),
            _with(r["auroc"], (r["auroc_low"], r["auroc_high"])),
        ]
        for r in e.detectors
    ]
    note = (
        "Nominal: false-positive rate that the threshold was set to on clean calibration contexts; realized:"
        " that on other clean contexts. Intercepted: flagged among the contexts that the denominator of"
        " detectors.json names (target-positive answers where they are known). AUROC below .5: poisoned"
        " contexts look more normal than clean ones; the direction of a score is never turned."
    )
    head = [*vary, "detector", "nominal", "realized", "intercepted", "rate", "AUROC"]
    return Table("Detectors", note, head, rows, len(vary) + 1)


def _exposure(e: Evaluation) -> Table:
    vary = place_names(e.exposure)
    rows = [
        [
            *(_cell(r[a]) for a in vary),
            visible(r["method"]),
            visible(r["label"]),
            r["stratum"],
            visible(r["value"]),
            str(r["contexts"]),
            *(
                "-" if r.get(n) is None else f"{r[n]['count']}/{r[n]['n']}"
                for n in ("r_p0", "r_p1", "P", "J")
            ),
        ]
        for r in e.exposure
    ]
    head = [
        *vary,
        "method",
        "label",
        "stratum",
        "value",
        "contexts",
        "poisoned",
        "defended",
        "prevented",
        "introduced",
    ]
    return Table(
        "By what the poisoned context held",
        "Target-positive answers by what the poisoned context held. support: of the legitimate support of the"
        " clean context all, some or none is still there (no support: there was none). poison: whose, own or"
        " foreign. share: poison passages of all.",
        head,
        rows,
        len(vary) + 4,
    )


def _utility(e: Evaluation) -> Table:
    vary = [a for a in place_names(e.utility) if a != "budget"]
    names = (
        "em_before",
        "em_after",
        "f1_before",
        "f1_after",
        "correct_before",
        "correct_after",
        "retained",
        "lost",
        "gained",
        "still_wrong",
        "abstention_introduced",
    )
    rows = [
        [
            *(_cell(r[a]) for a in vary),
            visible(r["method"]),
            visible(r["label"]),
            str(r["n_queries"]),
            *(_value(r, n) for n in names),
        ]
        for r in e.utility
    ]
    note = (
        "On clean held-out queries. Exact match punishes long answers; retained, lost, gained and still wrong"
        " go by the label."
    )
    return Table(
        "Clean utility",
        note,
        [*vary, "method", "label", "n", *(n.replace("_", " ") for n in names)],
        rows,
        len(vary) + 2,
    )


def _bounds(e: Evaluation) -> Table:
    some = [r for r in e.rows if r["bounds"]]
    vary = place_names(some)
    names = ("r_c0", "r_p0", "r_c1", "r_p1", "P", "J", "N", "H", "Gamma")
    rows = [
        [
            *(_cell(r[a]) for a in vary),
            visible(r["method"]),
            visible(r["label"]),
            f"{r['n']}/{r['n_queries'] - r['not_applicable']}",
            *(
                f"[{r['bounds'][n][0]:.2f} {r['bounds'][n][1]:.2f}]" if n in r["bounds"] else "-"
                for n in names
            ),
        ]
        for r in some
    ]
    note = (
        "What the measures could be over all queries, whatever the unknown labels are: each takes the value"
        " that pushes the measure furthest."
    )
    return Table(
        "Bounds with unknown labels", note, [*vary, "method", "label", "known", *names], rows, len(vary) + 2
    )
