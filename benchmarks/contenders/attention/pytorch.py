"""Attention of PyTorch."""

import torch
from torch.nn import functional

from benchmarks.process_memory import begin_peak, held
from benchmarks.turns import serve


def prepare(options):
    heads, width, length = options["heads"], options["width"], options["length"]
    if options["what"] == "layer":
        inputs = [torch.randn(options["rows"], length, heads * width, requires_grad=True)]
        layer = torch.nn.MultiheadAttention(heads * width, heads, batch_first=True)

        def attend(x):
            return layer(x, x, x, need_weights=False)[0]
    else:
        inputs = [torch.randn(options["rows"], heads, length, width, requires_grad=True)
                  for _ in range(3)]
        attend = functional.scaled_dot_product_attention
    before = begin_peak()

    def work(count):
        for _ in range(count):
            if options["back"]:
                for x in inputs:
                    x.grad = None
                attend(*inputs).sum().backward()
            else:
                with torch.no_grad():
                    attend(*inputs)
        return {"memory": held("VmHWM") - before}

    return work


if __name__ == "__main__":
    serve(prepare)
