"""Makes embedding_losses.npz: losses of sentence-transformers, and their gradients.

Run with `torch` and `sentence-transformers` installed:

    python tests/golden/make_embedding_losses.py
"""

import pathlib

import numpy as np
import torch
from sentence_transformers.sentence_transformer import losses

EMBEDDINGS = np.random.default_rng(0).normal(size=(6, 3, 8))
SCORES = np.array([0.1, 0.9, 0.4, 0.4, 1.0, 0.0])
# Name: class, texts of an example, arguments.
LOSSES = {
    "pairs": (losses.MultipleNegativesRankingLoss, 2, {"scale": 5.0}),
    "triplets": (losses.MultipleNegativesRankingLoss, 3, {"scale": 20.0}),
    "symmetric": (losses.MultipleNegativesSymmetricRankingLoss, 2, {"scale": 5.0}),
    "cosent": (losses.CoSENTLoss, 2, {"scale": 5.0}),
    "cosine": (losses.CosineSimilarityLoss, 2, {}),
    "triplet": (losses.TripletLoss, 3, {"triplet_margin": 1.0}),
}


class Given(torch.nn.Module):
    """A model whose embeddings are its inputs."""

    def forward(self, features):
        return {"sentence_embedding": features["embedding"]}


def main():
    arrays = {"embeddings": EMBEDDINGS, "scores": SCORES}
    for name, (kind, texts, options) in LOSSES.items():
        embeddings = torch.tensor(EMBEDDINGS[:, :texts], requires_grad=True)
        features = [{"embedding": embeddings[:, k]} for k in range(texts)]
        loss = kind(Given(), **options)(features, torch.tensor(SCORES))
        loss.backward()
        arrays |= {f"{name}/loss": loss.detach(), f"{name}/gradient": embeddings.grad}
    path = pathlib.Path(__file__).with_name("embedding_losses.npz")
    np.savez_compressed(path, **{name: np.asarray(x) for name, x in arrays.items()})


if __name__ == "__main__":
    main()
