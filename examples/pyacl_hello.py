"""The interface of pyACL from init to finalize:  python examples/pyacl_hello.py digits.om

Runs on a card with the vendor's module and anywhere else with the one of ascendrt, unchanged. It
asks a model which digit a picture shows. Note on the usual guides: a call that gives values answers
(value, ..., code), creators of descriptors answer the bare handle; each level (memory, data buffer,
dataset, model) is freed by the program; and an address from bytes_to_ptr is good only as long as a
name holds the bytes.
"""

import sys

import acl
import numpy as np

HUGE_FIRST = 0  # the module exports no constants; ascendrt.constants has them all
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


def check(code, call):
    if code != 0:
        sys.exit(f"{call} answers {code}: {acl.get_recent_err_msg()}")


def valued(answer, call):
    """The value of an answer (value, code)."""
    value, code = answer
    check(code, call)
    return value


def dataset_of(sizes):
    """A dataset over fresh device memory, and the addresses of that memory."""
    dataset, blocks = acl.mdl.create_dataset(), []
    for size in sizes:
        block = valued(acl.rt.malloc(size, HUGE_FIRST), "acl.rt.malloc")
        buffer = acl.create_data_buffer(block, size)
        valued(acl.mdl.add_dataset_buffer(dataset, buffer), "acl.mdl.add_dataset_buffer")
        blocks.append(block)
    return dataset, blocks


def free_dataset(dataset, blocks):
    for index, block in enumerate(blocks):
        acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, index))
        check(acl.rt.free(block), "acl.rt.free")
    acl.mdl.destroy_dataset(dataset)


def recognise(model, picture):
    """Run the model once and return its probabilities."""
    desc = acl.mdl.create_desc()
    check(acl.mdl.get_desc(desc, model), "acl.mdl.get_desc")
    in_size, out_size = (
        acl.mdl.get_input_size_by_index(desc, 0),
        acl.mdl.get_output_size_by_index(desc, 0),
    )
    inputs, (source,) = dataset_of([in_size])
    outputs, (target,) = dataset_of([out_size])
    data = picture.tobytes()
    pointer = acl.util.bytes_to_ptr(data)
    check(acl.rt.memcpy(source, in_size, pointer, len(data), HOST_TO_DEVICE), "acl.rt.memcpy")
    check(acl.mdl.execute(model, inputs, outputs), "acl.mdl.execute")
    host = valued(acl.rt.malloc_host(out_size), "acl.rt.malloc_host")
    check(acl.rt.memcpy(host, out_size, target, out_size, DEVICE_TO_HOST), "acl.rt.memcpy")
    answer = np.frombuffer(acl.util.ptr_to_bytes(host, out_size), np.float32)
    acl.rt.free_host(host)
    free_dataset(inputs, [source])
    free_dataset(outputs, [target])
    acl.mdl.destroy_desc(desc)
    return answer


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} digits.om")
    picture = np.load("examples/digits/heldout.npz")["pixels"][0].astype(np.float32) / 16
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    model = valued(acl.mdl.load_from_file(sys.argv[1]), "acl.mdl.load_from_file")
    probabilities = recognise(model, picture.reshape(1, 1, 8, 8))
    print(f"{acl.get_soc_name()} says {probabilities.argmax()} ({probabilities.max():.1%})")
    check(acl.mdl.unload(model), "acl.mdl.unload")
    check(acl.rt.reset_device(0), "acl.rt.reset_device")
    check(acl.finalize(), "acl.finalize")


main()
