// What probes do with a tensor, as a Python module: statistics of its data, and PyTorch's own text of it.
//
// PyTorch's headers are not included: the printer is declared here as PyTorch declares it (ATen/core/Formatting.h),
// over an incomplete type, and a tensor is the word that `Tensor._cdata` holds.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <exception>
#include <ostream>
#include <sstream>

#include "statistics.h"

namespace at {
class Tensor;
std::ostream& print(std::ostream& stream, const Tensor& tensor, int64_t line_size);
}  // namespace at

namespace {

bool integers(PyObject* given, std::vector<int64_t>& out) {
  if (!PyTuple_Check(given)) {
    PyErr_SetString(PyExc_TypeError, "sizes and strides are tuples");
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    const long long value = PyLong_AsLongLong(PyTuple_GET_ITEM(given, i));
    if (value == -1 && PyErr_Occurred()) return false;
    out.push_back(value);
  }
  return true;
}

// statistics(data_ptr, kind, itemsize, size, stride, table_ptr, threads) -> tuple
PyObject* statistics(PyObject*, PyObject* args) {
  unsigned long long pointer, table;
  int kind, threads;
  long long item;
  PyObject *size, *stride;
  if (!PyArg_ParseTuple(args, "KiLOOKi", &pointer, &kind, &item, &size, &stride, &table, &threads)) return nullptr;
  kernelscope::Layout layout{reinterpret_cast<const unsigned char*>(pointer), item, {}, {}};
  if (!integers(size, layout.size) || !integers(stride, layout.stride)) return nullptr;
  if (layout.size.size() != layout.stride.size() || kind < 0 || kind > static_cast<int>(kernelscope::Kind::boolean)) {
    PyErr_SetString(PyExc_ValueError, "sizes and strides differ in length, or there is no such kind of element");
    return nullptr;
  }
  kernelscope::Statistics all;
  Py_BEGIN_ALLOW_THREADS;
  all = kernelscope::statistics(
      layout, static_cast<kernelscope::Kind>(kind), reinterpret_cast<const float*>(table), threads);
  Py_END_ALLOW_THREADS;
  if (kind >= static_cast<int>(kernelscope::Kind::i64))
    return Py_BuildValue(
        "(LLLLLLLLLLLddK)", all.count, all.nan, all.positive_inf, all.negative_inf, all.zero, all.subnormal,
        all.first_nan, all.argmin, all.argmax, all.min_integer, all.max_integer, all.mean, all.m2, all.hash);
  return Py_BuildValue(
      "(LLLLLLLLLddddK)", all.count, all.nan, all.positive_inf, all.negative_inf, all.zero, all.subnormal,
      all.first_nan, all.argmin, all.argmax, all.min, all.max, all.mean, all.m2, all.hash);
}

// tensor_text(cdata, line_size) -> str
PyObject* tensor_text(PyObject*, PyObject* args) {
  unsigned long long cdata;
  long long line_size;
  if (!PyArg_ParseTuple(args, "KL", &cdata, &line_size)) return nullptr;
  void* cell = reinterpret_cast<void*>(cdata);
  try {
    std::ostringstream stream;
    at::print(stream, *reinterpret_cast<const at::Tensor*>(&cell), line_size);
    const std::string text = stream.str();
    return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyMethodDef methods[] = {
    {"statistics", statistics, METH_VARARGS, "Statistics of a tensor's data."},
    {"tensor_text", tensor_text, METH_VARARGS, "A tensor as PyTorch's C++ prints it."},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "kernelscope_observe", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_kernelscope_observe() { return PyModule_Create(&module); }
