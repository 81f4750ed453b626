// Calls that dominate the host time of small models, made straight from Python to PyTorch's stable C interface.
//
// A tensor's Python object holds the at::Tensor right behind its header (the build passes the offset that the
// installed PyTorch's own header states); its address is the handle that the C interface takes. Whatever is not a
// plain CPU tensor, and every call that fails, goes to the Python function given as fallback, which does the same
// work and raises PyTorch's own errors.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace {

PyTypeObject* tensor_type = nullptr;
PyTypeObject* parameter_type = nullptr;
PyObject* out_name = nullptr;

AtenTensorHandle handle_of(PyObject* object) {
  return reinterpret_cast<AtenTensorHandle>(reinterpret_cast<char*>(object) + KERNELSCOPE_TENSOR_OFFSET);
}

bool is_plain(PyObject* object) {
  return Py_TYPE(object) == tensor_type || Py_TYPE(object) == parameter_type;
}

bool is_cpu(PyObject* object) {
  int32_t device = -1;
  return is_plain(object) && aoti_torch_get_device_type(handle_of(object), &device) == AOTI_TORCH_SUCCESS &&
      device == aoti_torch_device_type_cpu();
}

bool all_cpu(PyObject* const* objects, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_cpu(objects[i])) return false;
  }
  return true;
}

bool only_out(PyObject* names) {
  return names != nullptr && PyTuple_GET_SIZE(names) == 1 && PyTuple_GET_ITEM(names, 0) == out_name;
}

// Operands of an out variant: `count` tensors by position and `out` by keyword, all plain CPU tensors.
bool operands_fit(PyObject* const* args, Py_ssize_t given, PyObject* names, Py_ssize_t count) {
  return given == count && only_out(names) && all_cpu(args, count + 1);
}

PyObject* answer(AOTITorchError code, PyObject* fallback, PyObject* const* args, Py_ssize_t given, PyObject* names) {
  if (code != AOTI_TORCH_SUCCESS) return PyObject_Vectorcall(fallback, args, given, names);
  PyObject* out = args[given];
  Py_INCREF(out);
  return out;
}

PyObject* mm_out(PyObject* fallback, PyObject* const* args, Py_ssize_t given, PyObject* names) {
  if (!operands_fit(args, given, names, 2)) return PyObject_Vectorcall(fallback, args, given, names);
  const auto code = aoti_torch_cpu_mm_out(handle_of(args[2]), handle_of(args[0]), handle_of(args[1]));
  return answer(code, fallback, args, given, names);
}

PyObject* bmm_out(PyObject* fallback, PyObject* const* args, Py_ssize_t given, PyObject* names) {
  if (!operands_fit(args, given, names, 2)) return PyObject_Vectorcall(fallback, args, given, names);
  const auto code = aoti_torch_cpu_bmm_out(handle_of(args[2]), handle_of(args[0]), handle_of(args[1]));
  return answer(code, fallback, args, given, names);
}

// addmm with alpha = beta = 1 on a floating dtype: what the compiler emits for a linear layer.
PyObject* addmm_out(PyObject* fallback, PyObject* const* args, Py_ssize_t given, PyObject* names) {
  if (!operands_fit(args, given, names, 3)) return PyObject_Vectorcall(fallback, args, given, names);
  const auto code = aoti_torch_cpu_addmm_out(
      handle_of(args[3]), handle_of(args[0]), handle_of(args[1]), handle_of(args[2]), 1.0, 1.0);
  return answer(code, fallback, args, given, names);
}

// --- checking a program's inputs ---

struct InputSpec {
  Py_ssize_t position;
  int32_t dtype;
  int32_t device;
  std::vector<int64_t> size;    // -1: any
  std::vector<int64_t> stride;  // -1: any
};

using InputSpecs = std::vector<InputSpec>;

bool fits(const InputSpec& spec, PyObject* object) {
  if (!is_plain(object)) return false;
  const auto handle = handle_of(object);
  int64_t dim = 0, *size = nullptr, *stride = nullptr;
  int32_t dtype = 0, device = 0;
  if (aoti_torch_get_dim(handle, &dim) || aoti_torch_get_dtype(handle, &dtype) ||
      aoti_torch_get_device_type(handle, &device) || dtype != spec.dtype || device != spec.device ||
      dim != static_cast<int64_t>(spec.size.size()) || aoti_torch_get_sizes(handle, &size) ||
      aoti_torch_get_strides(handle, &stride)) {
    return false;
  }
  bool empty = false;
  for (int64_t i = 0; i < dim; ++i) {
    if (spec.size[i] >= 0 && spec.size[i] != size[i]) return false;
    empty = empty || size[i] == 0;
  }
  for (int64_t i = 0; !empty && i < dim; ++i) {
    if (size[i] != 1 && spec.stride[i] >= 0 && spec.stride[i] != stride[i]) return false;
  }
  return true;
}

// self is (capsule of the specs, fallback); the fallback decides what does not obviously fit, and words the error.
PyObject* check_inputs(PyObject* self, PyObject* args) {
  const auto* specs = static_cast<InputSpecs*>(PyCapsule_GetPointer(PyTuple_GET_ITEM(self, 0), nullptr));
  if (specs == nullptr) return nullptr;
  if (PyList_CheckExact(args)) {
    const Py_ssize_t count = PyList_GET_SIZE(args);
    bool good = true;
    for (const auto& spec : *specs) {
      good = spec.position < count && fits(spec, PyList_GET_ITEM(args, spec.position));
      if (!good) break;
    }
    if (good) Py_RETURN_NONE;
  }
  return PyObject_CallOneArg(PyTuple_GET_ITEM(self, 1), args);
}

bool read_dims(PyObject* dims, std::vector<int64_t>& into) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(dims); ++i) {
    PyObject* dim = PyTuple_GET_ITEM(dims, i);
    into.push_back(dim == Py_None ? -1 : PyLong_AsLongLong(dim));
  }
  return !PyErr_Occurred();
}

PyMethodDef check_definition = {"check_inputs", check_inputs, METH_O, nullptr};

// input_checker(specs, fallback): specs of (position, exemplar tensor, size, stride).
PyObject* input_checker(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyTuple_Check(args[0])) return PyErr_Format(PyExc_TypeError, "input_checker(specs, fallback)");
  auto specs = std::make_unique<InputSpecs>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[0]); ++i) {
    InputSpec spec;
    PyObject *exemplar = nullptr, *size = nullptr, *stride = nullptr;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(args[0], i), "nOO!O!", &spec.position, &exemplar, &PyTuple_Type, &size,
                          &PyTuple_Type, &stride)) {
      return nullptr;
    }
    if (!is_plain(exemplar)) return PyErr_Format(PyExc_TypeError, "input_checker: the exemplar is not a tensor");
    aoti_torch_get_dtype(handle_of(exemplar), &spec.dtype);
    aoti_torch_get_device_type(handle_of(exemplar), &spec.device);
    if (!read_dims(size, spec.size) || !read_dims(stride, spec.stride)) return nullptr;
    specs->push_back(std::move(spec));
  }
  PyObject* capsule = PyCapsule_New(specs.release(), nullptr, [](PyObject* dying) {
    delete static_cast<InputSpecs*>(PyCapsule_GetPointer(dying, nullptr));
  });
  if (capsule == nullptr) return nullptr;
  PyObject* self = PyTuple_Pack(2, capsule, args[1]);
  Py_DECREF(capsule);
  if (self == nullptr) return nullptr;
  PyObject* function = PyCFunction_New(&check_definition, self);
  Py_DECREF(self);
  return function;
}

PyMethodDef operator_definitions[] = {
    {"mm_out", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(mm_out)), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {"bmm_out", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(bmm_out)), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {"addmm_out", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(addmm_out)), METH_FASTCALL | METH_KEYWORDS,
     nullptr},
};

// operator_call(name, fallback): the direct form of an operator.
PyObject* operator_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count == 2) {
    for (auto& definition : operator_definitions) {
      if (PyUnicode_CompareWithASCIIString(args[0], definition.ml_name) == 0) {
        return PyCFunction_New(&definition, args[1]);
      }
    }
  }
  return PyErr_Format(PyExc_ValueError, "operator_call(name, fallback): no such operator");
}

PyMethodDef methods[] = {
    {"input_checker", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(input_checker)), METH_FASTCALL, nullptr},
    {"operator_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(operator_call)), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "kernelscope_hostcalls", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_kernelscope_hostcalls() {
  PyObject* torch = PyImport_ImportModule("torch");
  PyObject* nn = torch == nullptr ? nullptr : PyImport_ImportModule("torch.nn");
  if (nn == nullptr) return nullptr;
  tensor_type = reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(torch, "Tensor"));
  parameter_type = reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(nn, "Parameter"));
  out_name = PyUnicode_InternFromString("out");
  return tensor_type == nullptr || parameter_type == nullptr ? nullptr : PyModule_Create(&module_definition);
}
