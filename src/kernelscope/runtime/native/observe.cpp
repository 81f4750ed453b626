// What probes do with tensors, as a Python module: records of a probe's values, statistics, and PyTorch's own text.
//
// PyTorch's headers are not included: the printer is declared here as PyTorch declares it (ATen/core/Formatting.h),
// over an incomplete type, and a tensor is the word that `Tensor._cdata` holds.

#include <algorithm>
#include <exception>
#include <ostream>
#include <sstream>
#include <unordered_map>

#include "python_tensor.h"
#include "statistics.h"

namespace at {
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
  const kernelscope::Walk walk(layout);
  const auto element = static_cast<kernelscope::Kind>(kind);
  const auto* values = reinterpret_cast<const float*>(table);
  all = kernelscope::statistics(walk.layout(), element, values, threads);
  all = kernelscope::placed(all, walk, layout, element, values);
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

// --- Step: what is known of tensors while a program runs ------------------------------------------------------------

// How a value is treated.
constexpr unsigned char WANTED = 1, WRITTEN = 2, UNWRITTEN = 4;

// What a record says besides numbers; of an unwritten tensor nothing but its dtype and extents is known.
constexpr uint8_t REQUIRES_GRAD = 1, CONTIGUOUS = 2, PARAMETER = 4, NOT_WRITTEN = 8;

// A tensor's record, followed by its sizes and strides; `kernelscope.probe.records` reads it.
struct Raw {
  uint64_t pointer, hash;
  int64_t offset, count, nan, positive_inf, negative_inf, zero, subnormal, first_nan, argmin, argmax;
  int64_t min_integer, max_integer;
  double min, max, mean, m2;
  uint8_t dtype, flags;
  uint16_t dimensions;
  uint32_t padding;
};
static_assert(sizeof(Raw) == 152);

// A tensor of a kind that is looked at here: a plain strided one in the CPU's memory.
struct Plain {
  int32_t dtype = -1;
  int64_t dimensions = 0, offset = 0, *size = nullptr, *stride = nullptr;
  const unsigned char* data = nullptr;

  uint64_t storage(int64_t item) const { return reinterpret_cast<uint64_t>(data) - offset * item; }
};

struct Known {
  const unsigned char* data;
  int32_t dtype;
  std::vector<int64_t> size, stride;  // in the order of addresses
  kernelscope::Statistics found;
};

struct Kinds {
  int kind = -1;
  int64_t item = 0;
  const float* table = nullptr;
};

constexpr int DTYPES = 64;
Kinds kinds[DTYPES];  // by PyTorch's number of a dtype

struct Step {
  PyObject_HEAD
  std::unordered_map<uint64_t, std::vector<Known>>* known;
  int threads;
  long long whole;  // tensors of at most that many elements are left to Python, which shows their values
};

bool read(PyObject* object, Plain& out) {
  if (!kernelscope::is_plain(object)) return false;
  const auto tensor = kernelscope::handle_of(object);
  int32_t layout = -1, device = -1;
  void* data = nullptr;
  if (aoti_torch_get_layout(tensor, &layout) || layout != aoti_torch_layout_strided()) return false;
  if (aoti_torch_get_device_type(tensor, &device) || device != aoti_torch_device_type_cpu()) return false;
  if (aoti_torch_get_dtype(tensor, &out.dtype) || out.dtype >= DTYPES || kinds[out.dtype].kind < 0) return false;
  if (kernelscope::is_negated(tensor)) return false;
  if (aoti_torch_get_dim(tensor, &out.dimensions) || aoti_torch_get_sizes(tensor, &out.size) ||
      aoti_torch_get_strides(tensor, &out.stride) || aoti_torch_get_storage_offset(tensor, &out.offset) ||
      aoti_torch_get_data_ptr(tensor, &data))
    return false;
  out.data = static_cast<const unsigned char*>(data);
  return true;
}

// Statistics over the elements in the order of their addresses: those of another view of the memory, where it has been
// looked at and not been written since.
const kernelscope::Statistics& look_at(Step& step, const Plain& tensor, const kernelscope::Layout& layout) {
  std::vector<Known>& all = (*step.known)[tensor.storage(layout.item)];
  for (const Known& each : all)
    if (each.data == tensor.data && each.dtype == tensor.dtype && each.size == layout.size &&
        each.stride == layout.stride)
      return each.found;
  const Kinds& kind = kinds[tensor.dtype];
  kernelscope::Statistics found;
  const auto compute = [&] {
    found = kernelscope::statistics(layout, static_cast<kernelscope::Kind>(kind.kind), kind.table, step.threads);
  };
  if (layout.numel() < 1 << 14) {
    compute();
  } else {  // the caller holds the tensor meanwhile, and nobody else has this step
    Py_BEGIN_ALLOW_THREADS;
    compute();
    Py_END_ALLOW_THREADS;
  }
  all.push_back({tensor.data, tensor.dtype, layout.size, layout.stride, found});
  return all.back().found;
}

PyObject* packed(Raw raw, const Plain& tensor) {
  raw.dtype = static_cast<uint8_t>(tensor.dtype);
  raw.dimensions = static_cast<uint16_t>(tensor.dimensions);
  const Py_ssize_t extents = static_cast<Py_ssize_t>(tensor.dimensions * sizeof(int64_t));
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(sizeof raw) + 2 * extents);
  if (bytes == nullptr) return nullptr;
  char* out = PyBytes_AS_STRING(bytes);
  std::memcpy(out, &raw, sizeof raw);
  std::memcpy(out + sizeof raw, tensor.size, extents);
  std::memcpy(out + sizeof raw + extents, tensor.stride, extents);
  return bytes;
}

PyObject* record_of(Step& step, PyObject* object, const Plain& tensor) {
  PyObject* grad = PyObject_GetAttrString(object, "requires_grad");
  if (grad == nullptr) return nullptr;
  Raw raw{};
  if (grad == Py_True) raw.flags |= REQUIRES_GRAD;
  Py_DECREF(grad);
  const Kinds& kind = kinds[tensor.dtype];
  const kernelscope::Layout layout{tensor.data, kind.item, {tensor.size, tensor.size + tensor.dimensions},
                                   {tensor.stride, tensor.stride + tensor.dimensions}};
  const kernelscope::Walk walk(layout);
  const kernelscope::Statistics found = kernelscope::placed(
      look_at(step, tensor, walk.layout()), walk, layout, static_cast<kernelscope::Kind>(kind.kind), kind.table);
  raw.pointer = reinterpret_cast<uint64_t>(tensor.data), raw.offset = tensor.offset;
  raw.count = found.count, raw.nan = found.nan, raw.zero = found.zero, raw.subnormal = found.subnormal;
  raw.positive_inf = found.positive_inf, raw.negative_inf = found.negative_inf;
  raw.first_nan = found.first_nan, raw.argmin = found.argmin, raw.argmax = found.argmax;
  raw.min_integer = found.min_integer, raw.max_integer = found.max_integer;
  raw.min = found.min, raw.max = found.max, raw.mean = found.mean, raw.m2 = found.m2, raw.hash = found.hash;
  if (layout.contiguous()) raw.flags |= CONTIGUOUS;
  if (Py_TYPE(object) == kernelscope::parameter_type) raw.flags |= PARAMETER;
  return packed(raw, tensor);
}

PyObject* unwritten(const Plain& tensor) {
  Raw raw{};
  raw.flags = NOT_WRITTEN;
  return packed(raw, tensor);
}

void forget(Step& step, PyObject* object) {
  if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) forget(step, PySequence_Fast_GET_ITEM(object, i));
    return;
  }
  Plain tensor;
  if (read(object, tensor)) step.known->erase(tensor.storage(kinds[tensor.dtype].item));
}

bool is_scalar(PyObject* object) {
  return object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
      PyUnicode_CheckExact(object);
}

// What is kept of a value that is no list: the bytes of a record, or the value itself where it cannot change. A null
// pointer without an error set: it is of no kind that is known here.
PyObject* seen_one(Step& step, PyObject* value, unsigned char mode) {
  if (is_scalar(value)) return Py_NewRef(value);
  Plain tensor;
  if (!read(value, tensor)) return nullptr;
  if (mode & UNWRITTEN) return unwritten(tensor);
  long long count = 1;
  for (int64_t dim = 0; dim < tensor.dimensions; ++dim) count *= tensor.size[dim];
  return count > step.whole ? record_of(step, value, tensor) : nullptr;
}

bool is_plain_tensor(PyObject* object) {
  Plain tensor;
  return read(object, tensor);
}

// The same of a list that holds tensors and no lists, in a tuple.
PyObject* seen_list(Step& step, PyObject* list, unsigned char mode) {
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(list);
  PyObject** items = PySequence_Fast_ITEMS(list);
  if (std::none_of(items, items + count, is_plain_tensor)) return nullptr;
  PyObject* result = PyTuple_New(count);
  for (Py_ssize_t i = 0; result != nullptr && i < count; ++i) {
    PyObject* item = seen_one(step, items[i], mode);
    if (item == nullptr) {
      Py_CLEAR(result);
    } else {
      PyTuple_SET_ITEM(result, i, item);
    }
  }
  return result;
}

// What is kept of a value; what is of no kind that is known here, `other` looks at.
PyObject* seen(Step& step, PyObject* value, unsigned char mode, Py_ssize_t index, PyObject* other) {
  const bool list = PyList_CheckExact(value) || PyTuple_CheckExact(value);
  PyObject* result = list ? seen_list(step, value, mode) : seen_one(step, value, mode);
  if (result != nullptr || PyErr_Occurred()) return result;
  return PyObject_CallFunction(other, "nO", index, value);
}

// look(values, modes, after, other): what is seen of the wanted values, in a tuple. After a call, records of what it
// wrote hold no more.
PyObject* step_look(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count != 4 || !PyTuple_Check(args[0]) || !PyBytes_Check(args[1]) ||
      PyBytes_GET_SIZE(args[1]) != PyTuple_GET_SIZE(args[0]))
    return PyErr_Format(PyExc_TypeError, "look(values, modes, after, other): a tuple, and a byte for each value");
  auto& step = *reinterpret_cast<Step*>(self);
  const auto* modes = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(args[1]));
  const Py_ssize_t given = PyTuple_GET_SIZE(args[0]);
  Py_ssize_t wanted = 0;
  for (Py_ssize_t i = 0; i < given; ++i) {
    if (args[2] == Py_True && (modes[i] & WRITTEN)) forget(step, PyTuple_GET_ITEM(args[0], i));
    wanted += (modes[i] & WANTED) != 0;
  }
  PyObject* result = PyTuple_New(wanted);
  for (Py_ssize_t i = 0, at = 0; result != nullptr && i < given; ++i) {
    if (!(modes[i] & WANTED)) continue;
    PyObject* item = seen(step, PyTuple_GET_ITEM(args[0], i), modes[i], i, args[3]);
    if (item == nullptr) {
      Py_CLEAR(result);
    } else {
      PyTuple_SET_ITEM(result, at++, item);
    }
  }
  return result;
}

PyObject* step_clear(PyObject* self, PyObject*) {
  reinterpret_cast<Step*>(self)->known->clear();
  Py_RETURN_NONE;
}

// Step(threads, whole)
PyObject* step_new(PyTypeObject* type, PyObject* args, PyObject*) {
  int threads;
  long long whole;
  if (!PyArg_ParseTuple(args, "iL", &threads, &whole)) return nullptr;
  auto* self = reinterpret_cast<Step*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->known = new std::unordered_map<uint64_t, std::vector<Known>>;
  self->threads = threads;
  self->whole = whole;
  return reinterpret_cast<PyObject*>(self);
}

void step_dealloc(PyObject* object) {
  delete reinterpret_cast<Step*>(object)->known;
  Py_TYPE(object)->tp_free(object);
}

PyMethodDef step_methods[] = {
    {"look", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(step_look)), METH_FASTCALL,
     "What is seen of a probe's values."},
    {"clear", step_clear, METH_NOARGS, "Forgets what is known of tensors."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject step_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool ready_step_type() {
  step_type.tp_name = "kernelscope_observe.Step";
  step_type.tp_doc = "What is known of tensors while a program runs.";
  step_type.tp_basicsize = sizeof(Step);
  step_type.tp_flags = Py_TPFLAGS_DEFAULT;
  step_type.tp_new = step_new;
  step_type.tp_dealloc = step_dealloc;
  step_type.tp_methods = step_methods;
  return PyType_Ready(&step_type) == 0;
}

// tell_kind(tensor, kind, itemsize, table_ptr): tensors of this one's dtype are looked at here.
PyObject* tell_kind(PyObject*, PyObject* args) {
  PyObject* tensor;
  int kind;
  long long item;
  unsigned long long table;
  if (!PyArg_ParseTuple(args, "OiLK", &tensor, &kind, &item, &table)) return nullptr;
  int32_t dtype = -1;
  if (!kernelscope::is_plain(tensor) || aoti_torch_get_dtype(kernelscope::handle_of(tensor), &dtype) || dtype >= DTYPES)
    return PyErr_Format(PyExc_TypeError, "tell_kind: that is no tensor of a known dtype");
  kinds[dtype] = {kind, item, reinterpret_cast<const float*>(table)};
  return PyLong_FromLong(dtype);
}

PyMethodDef methods[] = {
    {"statistics", statistics, METH_VARARGS, "Statistics of a tensor's data."},
    {"tell_kind", tell_kind, METH_VARARGS, "Says how a dtype is looked at; the dtype's number."},
    {"tensor_text", tensor_text, METH_VARARGS, "A tensor as PyTorch's C++ prints it."},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "kernelscope_observe", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_kernelscope_observe() {
  if (!kernelscope::find_tensor_types() || !ready_step_type()) return nullptr;
  PyObject* made = PyModule_Create(&module);
  if (made != nullptr && PyModule_AddObjectRef(made, "Step", reinterpret_cast<PyObject*>(&step_type)) < 0)
    Py_CLEAR(made);
  return made;
}
