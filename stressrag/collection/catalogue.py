"""The collections known by name, with what tells a true copy from another."""

from __future__ import annotations

from dataclasses import dataclass

from stressrag.collection.places import find_bipia

__all__ = ["BIPIA", "CATALOGUE", "Copy", "Entry", "Resource", "find_bipia"]

_BEIR_URL = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets/"
# BEIR's own cards say CC BY-SA 4.0 for the packaging; what the texts allow their makers say.
_BEIR_LICENSE = "BEIR's packaging CC BY-SA 4.0; for the texts the terms of the source hold"


@dataclass(frozen=True)
class Copy:
    """A copy of a collection that has been seen, by the hashes of ``Collection.hashes``.

    Attributes
    ----------
    label : str
        What copy it is.
    corpus, content : str
        SHA-256; ``content`` is that of the entry's own split.
    """

    label: str
    corpus: str
    content: str


@dataclass(frozen=True)
class Entry:
    """A collection known by name.

    Attributes
    ----------
    name : str
        The exact name.
    title : str
        What it is, in a few words.
    documents, queries : int
        How many documents, and how many queries that ``split`` judges.
    license : str
        As the source states it.
    source : str
        The archive's address, or in words where a copy comes from.
    md5 : str or None
        Of the archive, as BEIR's README states it; ``None``: cannot be downloaded.
    split : str
        The judgments that results are usually reported on.
    copies : tuple of Copy
        Copies that have been seen.
    """

    name: str
    title: str
    documents: int
    queries: int
    license: str
    source: str
    md5: str | None = None
    split: str = "test"
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True)
class Resource:
    """Files that are no collection: a base address and the SHA-256 of each file below it."""

    name: str
    title: str
    license: str
    base: str
    sha256: dict[str, str]


def _beir(
    name: str,
    title: str,
    documents: int,
    queries: int,
    md5: str,
    *,
    license: str = _BEIR_LICENSE,
    split: str = "test",
    copies: tuple[Copy, ...] = (),
) -> Entry:
    return Entry(name, title, documents, queries, license, f"{_BEIR_URL}{name}.zip", md5, split, copies)


_ENTRIES = (
    Entry(
        "pellmore",
        "papers of a fictional ferry and harbour operator",
        534,
        222,
        "CC BY 4.0",
        "in the package",
        copies=(
            Copy(
                "of this version",
                "03471ab87b1a265e144a4d72a2efb4b83b2d4f5b5b5837b6fdd2878168a6c867",
                "eed185d3dd0000b2be8e3842d59e6fe1d7386230b1d8634170b9e93e08706677",
            ),
        ),
    ),
    _beir(
        "scifact",
        "scientific claims against abstracts",
        5_183,
        300,
        "5f7d1de60b170fc8027bb7898e2efca1",
        license="claims CC BY 4.0, abstracts ODC-By 1.0",
        copies=(
            Copy(
                "rebuilt from the SciFact abstracts",
                "4e71154169d4dc63ba97d73b77048821717aec5a1d65ce63a71ea0bd2b326ebb",
                "eb5352790e9e3d7ea7fd58ef0cc198f4bb386c7e64bc3bf555c9f2af19a706a4",
            ),
        ),
    ),
    _beir(
        "nfcorpus",
        "health questions against PubMed abstracts",
        3_633,
        323,
        "a89dba18a62ef92f7d323ec890a0d38d",
        license="free for academic use",
    ),
    _beir(
        "arguana", "arguments and their counterarguments", 8_674, 1_406, "8ad3e3c2a5867cdced806d6503f29b99"
    ),
    _beir("scidocs", "papers that a paper cites", 25_657, 1_000, "38121350fc3a4d2f48850f6aff52e4a9"),
    _beir("fiqa", "financial questions and answers", 57_638, 648, "17918ed23cd04fb15047f73e6c3bd9d9"),
    _beir("trec-covid", "questions on COVID-19 papers", 171_332, 50, "ce62140cb23feb9becf6270d0d1fe6d1"),
    _beir("webis-touche2020", "arguments on controversies", 382_545, 49, "46f650ba5a527fc69e0a6521c5a23563"),
    _beir("quora", "duplicate questions", 522_931, 10_000, "18fb154900ba42a600f84b839c173167"),
    _beir("nq", "Google questions against Wikipedia", 2_681_468, 3_452, "d4d3d2e48787a744b6f6e691ff534307"),
    _beir("dbpedia-entity", "entities of DBpedia", 4_635_922, 400, "c2a39eb420a3164af735795df012ac2c"),
    _beir(
        "hotpotqa", "two-step questions on Wikipedia", 5_233_329, 7_405, "f412724f78b0d91183a0e86805e16114"
    ),
    _beir("fever", "claims against Wikipedia", 5_416_568, 6_666, "5a818580227bfb4b35bb6fa46d9b6c03"),
    _beir(
        "climate-fever", "climate claims on Wikipedia", 5_416_593, 1_535, "8b66f0a9126c521bae2bde127b4dc99d"
    ),
    _beir(
        "msmarco",
        "Bing questions against web passages",
        8_841_823,
        6_980,
        "444067daf65d982533ea17ebd59501e4",
        split="dev",
    ),
    Entry(
        "nfcorpus-normalised",
        "NFCorpus in its lower-cased, stop-word-free form; not BEIR's nfcorpus",
        3_395,
        323,
        "free for academic use",
        "the .docs files of the NFCorpus release with BEIR's queries and judgments",
        copies=(
            Copy(
                "the normalised documents judged in test or dev",
                "30ecf31dd87c3e83344171e10a2d543d8d998c4e8dc35ddc3521a17d6cd05f45",
                "5f1a769d8ad14421c631e25028ce66cedd78cb57dd9c31d61bc299f7030380bc",
            ),
        ),
    ),
    Entry(
        "cranfield",
        "aerodynamics abstracts, the classic Cranfield collection",
        1_400,
        225,
        "none stated; distributed by the University of Glasgow for research",
        "cran.tar.gz of the University of Glasgow, every judged pair taken as relevant",
        copies=(
            Copy(
                "binary judgments, titles split off",
                "2f89ca22828b8756cb9109d7badd7d385a997cf7b9ffb3b0971a2884be134fcf",
                "dd54b64fb7b82c3d0078f3b3f72b865d2f2b6d1df6d0007fe458a3cf4a5be6bb",
            ),
        ),
    ),
    Entry(
        "hotpotqa_dev500",
        "500 HotpotQA dev questions with their pooled paragraphs",
        4_937,
        500,
        "CC BY-SA 4.0",
        "HotpotQA dev (distractor), first 500 questions",
        copies=(
            Copy(
                "pooled paragraphs in pool order",
                "a709e6fb55189fe8de2de4acb66bd37b08741f626261d27983eb1dbaef32bbb2",
                "299a30d05c3d786b5699f11a6cb243cbd69d133ba14f866b7c2ae87214b737f3",
            ),
        ),
    ),
    Entry(
        "nq_poisonedrag100",
        "passages for the 100 Natural Questions that PoisonedRAG targets",
        1_209,
        100,
        "CC BY-SA 3.0 (Wikipedia, through Natural Questions)",
        "BEIR's gold passages, published PoisonedRAG retrievals and CLAP NQ passages",
        copies=(
            Copy(
                "gold, retrieved and distractor passages",
                "eb6a5ef408432ad22127d024927cc4133bdcf9f3fe7387b00167599eb1859c6b",
                "326d49e0d69255de062c831111e3779a74598d022d0c346c4d5d614a8fc1a8a4",
            ),
        ),
    ),
)

CATALOGUE: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}

BIPIA = Resource(
    "bipia",
    "instructions for indirect prompt injection, 15 kinds of 5 in each file",
    "MIT",
    "https://raw.githubusercontent.com/microsoft/BIPIA/1a2a91da6bb12838e05d1b2e54d98e2f37b835f3/benchmark/",
    {
        "text_attack_test.json": "75750e7b4e8b34e8f9d88d89b357aeaaf02bd07f9e493ccd37eda74a0cd7c7f8",
        "text_attack_train.json": "63f95d3e67eac4178cdabdbdaf192cd05f2b6ed0702b578f1d30d556e5155670",
    },
)
