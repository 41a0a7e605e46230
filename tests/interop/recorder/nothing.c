// Calls of the CUDA runtime that succeed and have no effect that the host program could see here.
#define NOTHING(name) \
  int name(void) { return 0; }

// errors and devices
NOTHING(cudaGetLastError)
NOTHING(cudaPeekAtLastError)
NOTHING(cudaSetDevice)
NOTHING(cudaDeviceSynchronize)
NOTHING(cudaDeviceSetLimit)
NOTHING(cudaFuncSetAttribute)
NOTHING(cudaFuncSetCacheConfig)
NOTHING(cudaFuncSetSharedMemConfig)
// streams and events
NOTHING(cudaStreamCreate)
NOTHING(cudaStreamCreateWithFlags)
NOTHING(cudaStreamDestroy)
NOTHING(cudaStreamSynchronize)
NOTHING(cudaStreamWaitEvent)
NOTHING(cudaStreamIsCapturing)
NOTHING(cudaStreamGetCaptureInfo)
NOTHING(cudaEventCreate)
NOTHING(cudaEventCreateWithFlags)
NOTHING(cudaEventRecord)
NOTHING(cudaEventQuery)
NOTHING(cudaEventSynchronize)
NOTHING(cudaEventElapsedTime)
NOTHING(cudaEventDestroy)
// memory
NOTHING(cudaFreeAsync)
NOTHING(cudaDeviceGetDefaultMemPool)
NOTHING(cudaMemPoolSetAttribute)
