// Makes C functions of a kernel library callable from Python with one argument per C parameter.
//
// Light on purpose: Python.h only, so that it compiles in a fraction of a second. A pointer parameter takes a
// tensor, whose data pointer is asked for through a function that PyTorch exports; a scalar parameter takes a
// number.
//
// The interpreter lock: letting go of it and taking it back costs more than a small kernel's whole call, and holding
// it through a long kernel stops every other thread. Timing a call costs as much again, so one call in 64 is timed
// (two reads of the processor's counter), and decides for those up to the next. Callers own the tensors for the
// length of the call, so nothing that the kernel uses can go away meanwhile.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace kernelscope {
namespace {

using DataPointer = void* (*)(PyObject*);
DataPointer data_pointer = nullptr;

struct Kernel {
  const char* name;
  const char* const* parameters;  // names, for messages
  bool keeps_lock;                // it uses a variable that all kernels of the process share
  std::atomic<bool> is_long;
  std::atomic<unsigned> calls;
};

constexpr unsigned timed_every = 64;

#if defined(__x86_64__)
constexpr std::uint64_t long_ticks = 40'000;  // 10 to 20 microseconds
inline std::uint64_t ticks() { return __builtin_ia32_rdtsc(); }
constexpr bool always_long = false;
#else
constexpr std::uint64_t long_ticks = 0;
inline std::uint64_t ticks() { return 0; }
constexpr bool always_long = true;
#endif

class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock() { PyEval_RestoreThread(state_); }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* state_;
};

struct BadArgument {
  std::size_t index;
};

template <typename T>
T convert(PyObject* object, std::size_t index) {
  if constexpr (std::is_pointer_v<T>) {
    try {
      return static_cast<T>(data_pointer(object));
    } catch (...) {
      throw BadArgument{index};
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    const double value = PyFloat_AsDouble(object);
    if (value == -1.0 && PyErr_Occurred()) throw BadArgument{index};
    return static_cast<T>(value);
  } else {
    const long long value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred()) throw BadArgument{index};
    return static_cast<T>(value);
  }
}

PyObject* refuse(const Kernel& kernel, std::size_t index, PyObject* object) {
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)) {
    return PyErr_Format(PyExc_OverflowError, "kernel %s, argument %zu (%s): %R does not fit into 64 bits", kernel.name,
                        index, kernel.parameters[index], object);
  }
  return PyErr_Format(PyExc_TypeError, "kernel %s, argument %zu (%s): cannot take a value of type %s", kernel.name,
                      index, kernel.parameters[index], Py_TYPE(object)->tp_name);
}

template <typename... P>
void run(Kernel& kernel, void (*function)(P...), P... values) {
  const unsigned calls = kernel.calls.load(std::memory_order_relaxed) + 1;
  kernel.calls.store(calls, std::memory_order_relaxed);
  std::optional<WithoutLock> scope;
  if (!kernel.keeps_lock && (always_long || kernel.is_long.load(std::memory_order_relaxed))) scope.emplace();
  if (calls % timed_every != 0) {
    function(values...);
    return;
  }
  const std::uint64_t start = ticks();
  function(values...);
  kernel.is_long.store(ticks() - start > long_ticks, std::memory_order_relaxed);
}

template <typename... P, std::size_t... I>
PyObject* launch(
    Kernel& kernel, void (*function)(P...), PyObject* const* args, Py_ssize_t count, std::index_sequence<I...>) {
  if (count != static_cast<Py_ssize_t>(sizeof...(P))) {
    return PyErr_Format(PyExc_TypeError, "kernel %s takes %zu arguments, got %zd", kernel.name, sizeof...(P), count);
  }
  try {
    run<P...>(kernel, function, convert<P>(args[I], I)...);
  } catch (const BadArgument& bad) {
    return refuse(kernel, bad.index, args[bad.index]);
  } catch (const std::exception& error) {
    return PyErr_Format(PyExc_RuntimeError, "kernel %s: %s", kernel.name, error.what());
  }
  Py_RETURN_NONE;
}

template <typename... P>
PyObject* launch(Kernel& kernel, void (*function)(P...), PyObject* const* args, Py_ssize_t count) {
  return launch(kernel, function, args, count, std::index_sequence_for<P...>{});
}

PyObject* set_data_pointer(PyObject*, PyObject* address) {
  void* pointer = PyLong_AsVoidPtr(address);
  if (pointer == nullptr) return nullptr;
  data_pointer = reinterpret_cast<DataPointer>(pointer);
  Py_RETURN_NONE;
}

PyObject* create(PyModuleDef& definition) {
  PyObject* module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
  if (module != nullptr) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  return module;
}

}  // namespace
}  // namespace kernelscope

// Declares kernel NAME, exported as SYMBOL, whether it must keep the interpreter lock, the names and the C types of
// its parameters (each list in parentheses), and its Python function.
#define KERNELSCOPE_KERNEL(NAME, SYMBOL, KEEPS_LOCK, NAMES, TYPES)                                     \
  extern "C" void SYMBOL TYPES;                                                                        \
  static const char* const parameters_##NAME[] = {KERNELSCOPE_UNPACK NAMES nullptr};                   \
  static kernelscope::Kernel kernel_##NAME{#NAME, parameters_##NAME, KEEPS_LOCK, {false}, {0}};        \
  static PyObject* python_##NAME(PyObject*, PyObject* const* args, Py_ssize_t count) {                 \
    return kernelscope::launch(kernel_##NAME, &SYMBOL, args, count);                                   \
  }

#define KERNELSCOPE_UNPACK(...) __VA_ARGS__

#define KERNELSCOPE_ENTRY(NAME) \
  {#NAME, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(python_##NAME)), METH_FASTCALL, nullptr},

#define KERNELSCOPE_MODULE(MODULE, ENTRIES)                                                      \
  static PyMethodDef methods[] = {                                                               \
      ENTRIES{"_set_data_pointer", kernelscope::set_data_pointer, METH_O, nullptr},              \
      {nullptr, nullptr, 0, nullptr}};                                                           \
  static PyModuleDef definition = {                                                              \
      PyModuleDef_HEAD_INIT, #MODULE, nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr}; \
  PyMODINIT_FUNC PyInit_##MODULE() { return kernelscope::create(definition); }
