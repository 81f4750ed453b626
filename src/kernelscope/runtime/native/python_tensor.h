// Tensors behind Python objects: which ones are plain, and the handles that PyTorch's stable C interface takes.
//
// A tensor's Python object holds its at::Tensor at an offset that the build finds out and passes.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

// PyTorch's own, declared here because its headers cost 17 seconds: whether a tensor's values are its data, negated. If a
// version lacks it, a module that asks does not load, and its work is done in Python.
namespace at {
class Tensor;
namespace native {
bool is_neg(const Tensor& self);
}
}  // namespace at

namespace kernelscope {

inline PyTypeObject* tensor_type = nullptr;
inline PyTypeObject* parameter_type = nullptr;

inline PyTypeObject* attribute_type(const char* module, const char* name) {
  PyObject* imported = PyImport_ImportModule(module);
  if (imported == nullptr) return nullptr;
  PyObject* found = PyObject_GetAttrString(imported, name);
  Py_DECREF(imported);
  return reinterpret_cast<PyTypeObject*>(found);
}

// Once, when the module is loaded; false with a Python error set.
inline bool find_tensor_types() {
  tensor_type = attribute_type("torch", "Tensor");
  parameter_type = tensor_type == nullptr ? nullptr : attribute_type("torch.nn", "Parameter");
  return parameter_type != nullptr;
}

// Whether it is a tensor of PyTorch's own classes, no subclass.
inline bool is_plain(PyObject* object) {
  return Py_TYPE(object) == tensor_type || Py_TYPE(object) == parameter_type;
}

inline AtenTensorHandle handle_of(PyObject* object) {
  return reinterpret_cast<AtenTensorHandle>(reinterpret_cast<char*>(object) + KERNELSCOPE_TENSOR_OFFSET);
}

inline bool is_negated(AtenTensorHandle tensor) {
  return at::native::is_neg(*reinterpret_cast<const at::Tensor*>(tensor));
}

}  // namespace kernelscope
