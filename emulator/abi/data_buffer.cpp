// Entries: data buffers. Must never: read or own the memory behind them.
#include "abi/model_objects.hpp"
#include "gen/prototypes.h"

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclDataBuffer* art_emu_aclCreateDataBuffer(void* data, size_t size) {
  return value<ApiId::aclCreateDataBuffer>(static_cast<aclDataBuffer*>(nullptr), [&] {
    return static_cast<aclDataBuffer*>(
        base::handles().insert(base::make_ref<DataBuffer>(data, size)));
  });
}

aclError art_emu_aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  return call<ApiId::aclDestroyDataBuffer>([&] { take<DataBuffer>(dataBuffer, "dataBuffer"); });
}

aclError art_emu_aclUpdateDataBuffer(aclDataBuffer* dataBuffer, void* data, size_t size) {
  return call<ApiId::aclUpdateDataBuffer>([&] {
    const auto buffer = live<DataBuffer>(dataBuffer, "dataBuffer");
    buffer->data = data;
    buffer->size = size;
  });
}

void* art_emu_aclGetDataBufferAddr(const aclDataBuffer* dataBuffer) {
  return value<ApiId::aclGetDataBufferAddr>(static_cast<void*>(nullptr), [&] {
    return live<DataBuffer>(dataBuffer, "dataBuffer")->data;
  });
}

// Cut to 32 bits, as the return type of this older call wants it.
uint32_t art_emu_aclGetDataBufferSize(const aclDataBuffer* dataBuffer) {
  return value<ApiId::aclGetDataBufferSize>(uint32_t{0}, [&] {
    return static_cast<uint32_t>(live<DataBuffer>(dataBuffer, "dataBuffer")->size);
  });
}

size_t art_emu_aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer) {
  return value<ApiId::aclGetDataBufferSizeV2>(
      size_t{0}, [&] { return live<DataBuffer>(dataBuffer, "dataBuffer")->size; });
}

}  // extern "C"
