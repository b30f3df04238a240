// libFuzzer harness of the ONNX importer: conversion, the file made of it, what the file holds.
#include <cstdlib>

#include "base/error.hpp"
#include "model/convert.hpp"
#include "model/om_reader.hpp"
#include "model/om_writer.hpp"
#include "run.hpp"

using namespace ascendrt;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const model::Model made = model::convert_onnx({data, size}, {});
    const model::Bytes file = model::serialize_om(made);
    const model::Model read = model::OmSource::from_memory(file.data(), file.size()).read("");
    if (read.inputs != made.inputs || read.outputs != made.outputs) std::abort();
    fuzz::compile_and_run(read, {data, size});
  } catch (const base::Error&) {  // an answer, with its code and text
  }
  return 0;
}
