// Calls that dominate the host time of small models, made straight from Python to PyTorch's stable C interface.
//
// Whatever is not a plain CPU tensor, and every call that fails, goes to the Python
// function given as fallback, which does the same work and raises PyTorch's own errors.

#include "python_tensor.h"

#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

// PyTorch's own too: the Python object of a new tensor.
namespace at {
class TensorBase;
}
PyObject* THPVariable_Wrap(const at::TensorBase& tensor);

namespace {

using kernelscope::handle_of;
using kernelscope::is_negated;
using kernelscope::is_plain;

PyObject* out_name = nullptr;

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

int64_t numel(AtenTensorHandle tensor) {
  int64_t count = 0;
  aoti_torch_get_numel(tensor, &count);
  return count;
}

// A product of more than about a million multiplications lets go of the interpreter lock, as PyTorch's own binding
// does for all; for less, the lock costs more than it gives. (m k) (k n) (m n) is the square of their number.
bool is_large(AtenTensorHandle out, AtenTensorHandle a, AtenTensorHandle b) {
  return static_cast<double>(numel(out)) * static_cast<double>(numel(a)) * static_cast<double>(numel(b)) > 1e12;
}

// For the length of a call: nothing is recorded for autograd, as where PyTorch runs compiled code; and a long call
// does not keep other threads from running.
class CallScope {
 public:
  explicit CallScope(bool unlock) : grad_(aoti_torch_grad_mode_is_enabled()), state_(nullptr) {
    if (grad_) aoti_torch_grad_mode_set_enabled(false);
    if (unlock) state_ = PyEval_SaveThread();
  }
  ~CallScope() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
    if (grad_) aoti_torch_grad_mode_set_enabled(true);
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  bool grad_;
  PyThreadState* state_;
};

PyObject* answer(AOTITorchError code, PyObject* fallback, PyObject* const* args, Py_ssize_t given, PyObject* names) {
  if (code != AOTI_TORCH_SUCCESS) return PyObject_Vectorcall(fallback, args, given, names);
  PyObject* out = args[given];
  Py_INCREF(out);
  return out;
}

using Product = AOTITorchError (*)(AtenTensorHandle, AtenTensorHandle, AtenTensorHandle);
using AddedProduct =
    AOTITorchError (*)(AtenTensorHandle, AtenTensorHandle, AtenTensorHandle, AtenTensorHandle, double, double);

template <Product product>
PyObject* product_out(PyObject* fallback, PyObject* const* args, Py_ssize_t given, PyObject* names) {
  if (!operands_fit(args, given, names, 2)) return PyObject_Vectorcall(fallback, args, given, names);
  const auto a = handle_of(args[0]), b = handle_of(args[1]), out = handle_of(args[2]);
  AOTITorchError code;
  {
    const CallScope scope(is_large(out, a, b));
    code = product(out, a, b);
  }
  return answer(code, fallback, args, given, names);
}

struct Matrix {
  void* data = nullptr;
  int64_t dim = 0;
  int64_t* size = nullptr;
  int64_t* stride = nullptr;
  int32_t dtype = -1;

  bool read(AtenTensorHandle tensor) {
    return !(aoti_torch_get_dim(tensor, &dim) || aoti_torch_get_sizes(tensor, &size) ||
             aoti_torch_get_strides(tensor, &stride) || aoti_torch_get_dtype(tensor, &dtype) ||
             aoti_torch_get_data_ptr(tensor, &data));
  }
};

int64_t element_bytes(int32_t dtype) {
  if (dtype == aoti_torch_dtype_float32()) return 4;
  if (dtype == aoti_torch_dtype_float64()) return 8;
  if (dtype == aoti_torch_dtype_bfloat16() || dtype == aoti_torch_dtype_float16()) return 2;
  return 0;
}

// addmm first copies its bias into every row of `out` and then adds the product in place. This does the copy, for a
// vector of the length of dense rows, in a tenth of the time; the caller then passes `out` as the bias. False, with
// nothing written, for everything else, and for operands that addmm would refuse.
bool copied_bias(AtenTensorHandle out_handle, AtenTensorHandle bias_handle, AtenTensorHandle a_handle,
                 AtenTensorHandle b_handle) {
  Matrix out, bias, a, b;
  if (!out.read(out_handle) || !bias.read(bias_handle) || !a.read(a_handle) || !b.read(b_handle)) return false;
  if (out.dim != 2 || bias.dim != 1 || a.dim != 2 || b.dim != 2) return false;
  const int64_t rows = a.size[0], columns = b.size[1], bytes = columns * element_bytes(out.dtype);
  if (out.size[0] != rows || out.size[1] != columns || bias.size[0] != columns || a.size[1] != b.size[0]) return false;
  if (bytes == 0 || rows == 0 || out.stride[1] != 1 || out.stride[0] != columns || bias.stride[0] != 1) return false;
  if (is_negated(bias_handle) || is_negated(out_handle)) return false;
  if (bias.dtype != out.dtype || a.dtype != out.dtype || b.dtype != out.dtype) return false;
  auto* to = static_cast<char*>(out.data);
  const auto* from = static_cast<const char*>(bias.data);
  if (from < to + rows * bytes && to < from + bytes) return false;
  for (int64_t row = 0; row < rows; ++row) std::memcpy(to + row * bytes, from, static_cast<std::size_t>(bytes));
  return true;
}

// addmm and baddbmm with alpha = beta = 1 on a floating dtype: what the compiler emits for a linear layer.
template <AddedProduct product, bool rows>
PyObject* added_product_out(PyObject* fallback, PyObject* const* args, Py_ssize_t given, PyObject* names) {
  if (!operands_fit(args, given, names, 3)) return PyObject_Vectorcall(fallback, args, given, names);
  const auto bias = handle_of(args[0]), a = handle_of(args[1]), b = handle_of(args[2]), out = handle_of(args[3]);
  AOTITorchError code;
  {
    const CallScope scope(is_large(out, a, b));
    code = product(out, rows && copied_bias(out, bias, a, b) ? out : bias, a, b, 1.0, 1.0);
  }
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

struct InputSpecs {
  Py_ssize_t count = 0;  // of all inputs, tensors or not
  std::vector<InputSpec> tensors;
};

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
  if (PyList_CheckExact(args) && PyList_GET_SIZE(args) == specs->count) {
    bool good = true;
    for (const auto& spec : specs->tensors) {
      good = fits(spec, PyList_GET_ITEM(args, spec.position));
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

// input_checker(count, specs, fallback): specs of (position, exemplar tensor, size, stride).
PyObject* input_checker(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3 || !PyTuple_Check(args[1])) {
    return PyErr_Format(PyExc_TypeError, "input_checker(count, specs, fallback)");
  }
  auto specs = std::make_unique<InputSpecs>();
  specs->count = PyLong_AsSsize_t(args[0]);
  if (specs->count == -1 && PyErr_Occurred()) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[1]); ++i) {
    InputSpec spec;
    PyObject *exemplar = nullptr, *size = nullptr, *stride = nullptr;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(args[1], i), "nOO!O!", &spec.position, &exemplar, &PyTuple_Type, &size,
                          &PyTuple_Type, &stride)) {
      return nullptr;
    }
    if (!is_plain(exemplar)) return PyErr_Format(PyExc_TypeError, "input_checker: the exemplar is not a tensor");
    aoti_torch_get_dtype(handle_of(exemplar), &spec.dtype);
    aoti_torch_get_device_type(handle_of(exemplar), &spec.device);
    if (spec.position < 0 || spec.position >= specs->count) {
      return PyErr_Format(PyExc_IndexError, "input_checker: position %zd of %zd inputs", spec.position, specs->count);
    }
    if (!read_dims(size, spec.size) || !read_dims(stride, spec.stride)) return nullptr;
    if (spec.size.size() != spec.stride.size()) {
      return PyErr_Format(PyExc_ValueError, "input_checker: a size and a stride of different lengths");
    }
    specs->tensors.push_back(std::move(spec));
  }
  PyObject* capsule = PyCapsule_New(specs.release(), nullptr, [](PyObject* dying) {
    delete static_cast<InputSpecs*>(PyCapsule_GetPointer(dying, nullptr));
  });
  if (capsule == nullptr) return nullptr;
  PyObject* self = PyTuple_Pack(2, capsule, args[2]);
  Py_DECREF(capsule);
  if (self == nullptr) return nullptr;
  PyObject* function = PyCFunction_New(&check_definition, self);
  Py_DECREF(self);
  return function;
}

// --- views ---

constexpr Py_ssize_t most_dims = 16;

// The dimensions of a tuple; -1 when it is not a short tuple of integers, which is left to the fallback.
Py_ssize_t dims_of(PyObject* dims, int64_t* into) {
  if (!PyTuple_CheckExact(dims) || PyTuple_GET_SIZE(dims) > most_dims) return -1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dims); ++i) {
    PyObject* dim = PyTuple_GET_ITEM(dims, i);
    if (!PyLong_CheckExact(dim)) return -1;
    into[i] = PyLong_AsLongLong(dim);
  }
  if (!PyErr_Occurred()) return PyTuple_GET_SIZE(dims);
  PyErr_Clear();
  return -1;
}

// reinterpret_tensor(base, size, stride, offset): a view.
PyObject* reinterpret_tensor(PyObject* fallback, PyObject* const* args, Py_ssize_t count) {
  int64_t size[most_dims], stride[most_dims];
  if (count == 4 && is_plain(args[0]) && PyLong_CheckExact(args[3])) {
    const Py_ssize_t dim = dims_of(args[1], size);
    const int64_t offset = PyLong_AsLongLong(args[3]);
    AtenTensorHandle view = nullptr;
    if (dim >= 0 && dims_of(args[2], stride) == dim && !PyErr_Occurred() &&
        aoti_torch__reinterpret_tensor(handle_of(args[0]), dim, size, stride, offset, &view) == AOTI_TORCH_SUCCESS) {
      PyObject* object = THPVariable_Wrap(reinterpret_cast<const at::TensorBase&>(*view));
      aoti_torch_delete_tensor_object(view);
      return object;
    }
    PyErr_Clear();
  }
  return PyObject_Vectorcall(fallback, args, count, nullptr);
}

// --- the module ---

template <typename Function>
PyCFunction function_of(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

constexpr int with_names = METH_FASTCALL | METH_KEYWORDS;

PyMethodDef call_definitions[] = {
    {"mm_out", function_of(product_out<aoti_torch_cpu_mm_out>), with_names, nullptr},
    {"bmm_out", function_of(product_out<aoti_torch_cpu_bmm_out>), with_names, nullptr},
    {"addmm_out", function_of(added_product_out<aoti_torch_cpu_addmm_out, true>), with_names, nullptr},
    {"baddbmm_out", function_of(added_product_out<aoti_torch_cpu_baddbmm_out, false>), with_names, nullptr},
    {"reinterpret_tensor", function_of(reinterpret_tensor), METH_FASTCALL, nullptr},
};

// direct_call(name, fallback): the direct form of a Python function.
PyObject* direct_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count == 2) {
    for (auto& definition : call_definitions) {
      if (PyUnicode_CompareWithASCIIString(args[0], definition.ml_name) == 0) {
        return PyCFunction_New(&definition, args[1]);
      }
    }
  }
  return PyErr_Format(PyExc_ValueError, "direct_call(name, fallback): no such function");
}

PyMethodDef methods[] = {
    {"input_checker", function_of(input_checker), METH_FASTCALL, nullptr},
    {"direct_call", function_of(direct_call), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "kernelscope_hostcalls", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_kernelscope_hostcalls() {
  out_name = PyUnicode_InternFromString("out");
  if (out_name == nullptr || !kernelscope::find_tensor_types()) return nullptr;
  return PyModule_Create(&module_definition);
}
