"""Small language models of five architectures, as `transformers` and as Relax modules."""
