// Makes C functions of a kernel library callable from Python with one argument per C parameter.
//
// Light on purpose: Python.h only, so that it compiles in a fraction of a second. A pointer parameter takes a
// tensor, whose data pointer is asked for through a function that PyTorch exports; a scalar parameter takes a
// number. The interpreter lock stays held, as in PyTorch's own binding: kernels are short, and those that are not
// run on OpenMP threads, which do not need it.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

namespace kernelscope {

using DataPointer = void* (*)(PyObject*);
inline DataPointer data_pointer = nullptr;

struct BadArgument {
  std::size_t index;
};

template <typename T>
T convert(PyObject* object, std::size_t index) {
  if constexpr (std::is_pointer_v<T>) {
    try {
      return static_cast<T>(data_pointer(object));
    } catch (const std::exception&) {
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

inline PyObject* refuse(const char* kernel, std::size_t index, PyObject* object) {
  PyErr_Clear();
  return PyErr_Format(
      PyExc_TypeError, "kernel %s, argument %zu: cannot take a value of type %s", kernel, index, Py_TYPE(object)->tp_name);
}

template <typename... P, std::size_t... I>
PyObject* launch(
    const char* kernel, void (*function)(P...), PyObject* const* args, Py_ssize_t count, std::index_sequence<I...>) {
  if (count != static_cast<Py_ssize_t>(sizeof...(P))) {
    return PyErr_Format(PyExc_TypeError, "kernel %s takes %zu arguments, got %zd", kernel, sizeof...(P), count);
  }
  try {
    function(convert<P>(args[I], I)...);
  } catch (const BadArgument& bad) {
    return refuse(kernel, bad.index, args[bad.index]);
  } catch (const std::exception& error) {
    return PyErr_Format(PyExc_RuntimeError, "kernel %s: %s", kernel, error.what());
  }
  Py_RETURN_NONE;
}

template <typename... P>
PyObject* launch(const char* kernel, void (*function)(P...), PyObject* const* args, Py_ssize_t count) {
  return launch(kernel, function, args, count, std::index_sequence_for<P...>{});
}

inline PyObject* set_data_pointer(PyObject*, PyObject* address) {
  void* pointer = PyLong_AsVoidPtr(address);
  if (pointer == nullptr) return nullptr;
  data_pointer = reinterpret_cast<DataPointer>(pointer);
  Py_RETURN_NONE;
}

}  // namespace kernelscope

// Declares kernel NAME, exported as SYMBOL with the given C parameter types, and its Python function.
#define KERNELSCOPE_KERNEL(NAME, SYMBOL, ...)                                       \
  extern "C" void SYMBOL(__VA_ARGS__);                                              \
  static PyObject* python_##NAME(PyObject*, PyObject* const* args, Py_ssize_t count) { \
    return kernelscope::launch(#NAME, &SYMBOL, args, count);                        \
  }

#define KERNELSCOPE_ENTRY(NAME) {#NAME, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(python_##NAME)), METH_FASTCALL, nullptr},

#define KERNELSCOPE_MODULE(MODULE, ENTRIES)                                         \
  static PyMethodDef methods[] = {                                                  \
      ENTRIES{"_set_data_pointer", kernelscope::set_data_pointer, METH_O, nullptr}, \
      {nullptr, nullptr, 0, nullptr}};                                              \
  static PyModuleDef definition = {                                                 \
      PyModuleDef_HEAD_INIT, #MODULE, nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr}; \
  PyMODINIT_FUNC PyInit_##MODULE() { return PyModule_Create(&definition); }
