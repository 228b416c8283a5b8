"""Attention in PyTorch."""

import torch
from torch.nn import functional

from benchmarks.interleaved import serve
from benchmarks.process_memory import read_memory, reset_peak


def prepare(options):
    heads, head_dim, length = options["heads"], options["head_dim"], options["length"]
    if options["what"] == "layer":
        inputs = [torch.randn(options["rows"], length, heads * head_dim, requires_grad=True)]
        layer = torch.nn.MultiheadAttention(heads * head_dim, heads, batch_first=True)

        def attend(x):
            return layer(x, x, x, need_weights=False)[0]
    else:
        inputs = [
            torch.randn(options["rows"], heads, length, head_dim, requires_grad=True)
            for _ in range(3)
        ]
        attend = functional.scaled_dot_product_attention
    before = reset_peak()

    def work(count):
        for _ in range(count):
            if options["back"]:
                for x in inputs:
                    x.grad = None
                attend(*inputs).sum().backward()
            else:
                with torch.no_grad():
                    attend(*inputs)
        return {"memory": read_memory("VmHWM") - before}

    return work


if __name__ == "__main__":
    serve(prepare)
