"""HotFlip for dense retrievers: words replaced by those that the gradient points at (Ebrahimi et al. 2018).

The white-box attacker of corpus poisoning (Zhong et al. 2023): with the encoder's weights at hand, the gain
of putting a word into another's place is estimated for the whole vocabulary at once, by the gradient of the
cosine with respect to the word's embedding; the most promising are then encoded, and the best is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stressrag.retrievers.dense import Dense

STEPS, CANDIDATES, MORE = 12, 32, 4
"""Rounds, texts encoded in each, and words added to begin with."""


class HotFlip:
    """Flips words of texts toward a query.

    Parameters
    ----------
    encoder : Dense
        Fitted; its model must be a transformer with word embeddings and sentence-transformers' pooling.
    """

    def __init__(self, encoder: Dense):
        self.encoder = encoder
        model = encoder.loaded()
        self.model, self.transformer, self.tokenizer = model, model[0].auto_model, model.tokenizer
        words = self.tokenizer.convert_ids_to_tokens(range(self.tokenizer.vocab_size))
        whole = [w is not None and len(w) >= 3 and w.isascii() and w.isalpha() for w in words]
        self.ids = np.flatnonzero(whole)  # pieces of words and signs are no replacements
        self.words = [words[i] for i in self.ids]

    def better(
        self, query: np.ndarray, words: Sequence[str], beside: str, fits: Callable[[str], bool]
    ) -> list[str]:
        """Words whose text, beside another, is no further from the query than the given ones.

        Parameters
        ----------
        query : float array (n_dimensions,)
            The query's vector, of length 1.
        words : sequence of str
            To begin with.
        beside : str
            A text that the document has to carry, behind the words.
        fits : callable
            Whether a text is short enough.
        """
        best = list(words)
        value = self._near([_text(best, beside)], query)[0]
        longer = ([*best, *(best * MORE)[:n]] for n in range(MORE, 0, -1))
        current = next((x for x in longer if fits(_text(x, beside))), best)
        for _ in range(STEPS):
            trials = [t for t in self._flips(current, beside, query) if fits(_text(t, beside))]
            if not trials:
                break
            near = self._near([_text(t, beside) for t in trials], query)
            at = int(near.argmax())
            if near[at] > value + 1e-6:
                best, value = trials[at], near[at]
            elif current is best:
                break
            current = best if len(best) >= len(current) else trials[at]
        return best

    def _near(self, texts: Sequence[str], query: np.ndarray) -> np.ndarray:
        vectors = self.encoder.embed(list(texts), "poison").astype(np.float64)
        return np.asarray(vectors @ query)

    def _flips(self, words: Sequence[str], beside: str, query: np.ndarray) -> list[list[str]]:
        """The replacements of one word each that the gradient finds most promising."""
        prompt = self.encoder.document_prompt
        gradient, spans = self._gradient(prompt + _text(words, beside), query)
        table = self.transformer.get_input_embeddings().weight.detach().cpu().numpy()[self.ids]
        gains, where = [], []
        start = len(prompt)
        for place, word in enumerate(words):
            at = next((i for i, (a, b) in enumerate(spans) if a <= start < b), None)
            start += len(word) + 1
            if at is None:  # cut off by the encoder's limit
                continue
            gain = table @ gradient[at]
            some = np.argpartition(-gain, CANDIDATES)[:CANDIDATES]
            gains += gain[some].tolist()
            where += [(place, self.words[i]) for i in some.tolist()]
        order = np.argsort(-np.array(gains), kind="stable")[:CANDIDATES]
        return [[*words[:p], w, *words[p + 1 :]] for p, w in (where[i] for i in order)]

    def _gradient(self, text: str, query: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int]]]:
        """The gradient of the cosine by each token's embedding, and the characters that each token covers."""
        import torch

        limit = self.encoder.tokens("poison")
        made: Any = self.tokenizer(
            text, truncation=True, max_length=limit, return_offsets_mapping=True, return_tensors="pt"
        )
        spans = [(int(a), int(b)) for a, b in made.pop("offset_mapping")[0].tolist()]
        device = next(self.transformer.parameters()).device
        mask = made["attention_mask"].to(device)
        embedded = self.transformer.get_input_embeddings()(made["input_ids"].to(device)).detach()
        embedded.requires_grad_(True)
        self.transformer.eval()
        hidden = self.transformer(inputs_embeds=embedded, attention_mask=mask).last_hidden_state
        features = {"token_embeddings": hidden, "attention_mask": mask}
        for module in list(self.model)[1:]:
            features = module(features)
        vector = features["sentence_embedding"][0]
        wanted = torch.as_tensor(query, dtype=vector.dtype, device=device)
        (gradient,) = torch.autograd.grad(
            torch.nn.functional.cosine_similarity(vector, wanted, dim=0), embedded
        )
        return gradient[0].cpu().numpy(), spans


def _text(words: Sequence[str], beside: str) -> str:
    return f"{' '.join(words)} {beside}".strip()
