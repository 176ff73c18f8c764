"""A causal language model of the transformers library, by its hub name or folder."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

from stressrag.aligned.generators.base import Completion, Generator, Prompt, Refused, messages
from stressrag.errors import StressragError


class Transformers(Generator):
    """A transformers model, decoded greedily with its chat template.

    Parameters
    ----------
    model : str
        Hub name or folder.
    name : str
        For records and reports; by default the last part of the model's.
    revision : str, optional
        A commit of the hub; name one for results that others shall reproduce.
    device : str, optional
        By default a graphics processor where there is one.
    dtype : str
        Such as ``float32``; ``auto`` is what the weights are kept in.
    """

    def __init__(
        self,
        model: str,
        *,
        name: str = "",
        revision: str | None = None,
        device: str | None = None,
        dtype: str = "auto",
    ) -> None:
        if not model:
            raise StressragError("a transformers generator needs the name or folder of a model")
        self.model, self.revision, self.device, self.dtype = model, revision, device, dtype
        self.name = name or Path(model).name
        self._parts: tuple[Any, Any] | None = None
        self._one = threading.Lock()

    def identity(self) -> dict[str, Any]:
        return {
            "kind": "transformers",
            "model": self.model,
            "revision": self._commit(),
            "dtype": self.dtype,
            "temperature": 0,
        }

    def _commit(self) -> str | None:
        """What tells one version of the weights from another; of a folder, its files with size and time."""
        folder = Path(self.model)
        if not folder.is_dir():
            return self.revision
        kept = [
            f"{p.name} {p.stat().st_size} {p.stat().st_mtime_ns}"
            for p in sorted(folder.iterdir())
            if p.is_file()
        ]
        return hashlib.sha256("\n".join(kept).encode("utf-8", "surrogateescape")).hexdigest()

    def complete(self, prompt: Prompt) -> Completion:
        with self._one:
            if self._parts is None:
                self._parts = self._loaded()
            return self._completed(prompt, *self._parts)

    def _loaded(self) -> tuple[Any, Any]:
        try:
            import torch
            import transformers
        except ImportError as e:
            raise StressragError(
                "transformers models need transformers and torch: pip install 'stressrag[dense]'"
            ) from e
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(self.model, revision=self.revision)
            # The keyword was renamed in 4.56, and the old one is warned about since.
            old = tuple(map(int, transformers.__version__.split(".")[:2])) < (4, 56)
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(
                self.model, revision=self.revision, **{"torch_dtype" if old else "dtype": self.dtype}
            )
            return tokenizer, model.to(device).eval()
        except (OSError, ValueError, RuntimeError, KeyError) as e:
            reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
            raise StressragError(f"cannot load the transformers model {self.model!r}: {reason}") from e

    def _completed(self, prompt: Prompt, tokenizer: Any, model: Any) -> Completion:
        import torch

        ids = self._ids(prompt, tokenizer).to(model.device)
        shown = int(ids.shape[1])
        longest = getattr(model.config, "max_position_embeddings", None)
        if longest and shown + prompt.max_tokens > longest:
            raise Refused(
                f"{self.name}: {shown} tokens of prompt and {prompt.max_tokens} of reply exceed the model's "
                f"{longest}; the prompt is not cut"
            )
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        options: dict[str, Any] = {"do_sample": False, "num_beams": 1, "pad_token_id": pad}
        # Settings of sampling that a model brings along do not matter here and would only be warned about.
        options |= {"temperature": None, "top_p": None, "top_k": None}
        if prompt.stop:
            options |= {"stop_strings": list(prompt.stop), "tokenizer": tokenizer}
        with torch.inference_mode():
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=prompt.max_tokens, **options
            )
        new = out[0, shown:]
        text = tokenizer.decode(new, skip_special_tokens=True)
        ends = [at for s in prompt.stop if (at := text.find(s)) >= 0]
        full = len(new) >= prompt.max_tokens and not ends and int(new[-1]) != tokenizer.eos_token_id
        text = text[: min(ends)] if ends else text
        return Completion(text.strip(), "length" if full else "stop", shown, len(new))

    def _ids(self, prompt: Prompt, tokenizer: Any) -> Any:
        """The tokens of a prompt: by the chat template, else system and user text as they are."""
        if not getattr(tokenizer, "chat_template", None):
            text = f"{prompt.system}\n\n{prompt.user}" if prompt.system else prompt.user
            return tokenizer(text, return_tensors="pt").input_ids
        chat = messages(prompt)
        try:
            text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        except Exception:  # templates raise what they like for a system role that the model does not know
            merged = [{"role": "user", "content": "\n\n".join(m["content"] for m in chat)}]
            text = tokenizer.apply_chat_template(merged, tokenize=False, add_generation_prompt=True)
        return tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
