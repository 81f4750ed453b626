// The flight recorder for Python: a probe function that stores which call a thread is in, and a guard around programs.
//
// Tensors are read through PyTorch's stable C interface; one that is no plain strided tensor is stored by its kind only.

#include <vector>

#include "flight.h"
#include "python_tensor.h"

namespace flight = kernelscope::flight;

namespace {

thread_local uint64_t current_step = 0;

constexpr uint16_t NO_PART = 0xffff;

bool read_tensor(PyObject* object, flight::Argument& out) {
  if (!kernelscope::is_plain(object)) return false;
  const auto tensor = kernelscope::handle_of(object);
  int32_t layout = -1, dtype = -1;
  int64_t dimensions = 0, *size = nullptr;
  void* data = nullptr;
  if (aoti_torch_get_layout(tensor, &layout) || layout != aoti_torch_layout_strided()) return false;
  if (aoti_torch_get_data_ptr(tensor, &data) || aoti_torch_get_dtype(tensor, &dtype)) return false;
  if (aoti_torch_get_dim(tensor, &dimensions) || aoti_torch_get_sizes(tensor, &size)) return false;
  out.kind = flight::TENSOR;
  out.value = reinterpret_cast<uint64_t>(data);
  out.dtype = static_cast<uint8_t>(dtype);
  out.dimensions = static_cast<uint8_t>(dimensions < 255 ? dimensions : 255);
  for (int64_t i = 0; i < dimensions && i < flight::DIMENSIONS; ++i) out.size[i] = size[i];
  return true;
}

void read_value(PyObject* object, flight::Argument& out) {
  out.kind = flight::OTHER, out.value = 0, out.dtype = 0, out.dimensions = 0;
  if (object == Py_None) {
    out.kind = flight::NOTHING;
  } else if (PyBool_Check(object)) {
    out.kind = flight::BOOLEAN, out.value = object == Py_True;
  } else if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) out.kind = flight::INTEGER, out.value = static_cast<uint64_t>(value);
  } else if (PyFloat_CheckExact(object)) {
    const double value = PyFloat_AS_DOUBLE(object);
    out.kind = flight::REAL;
    std::memcpy(&out.value, &value, sizeof value);
  } else {
    read_tensor(object, out);
  }
}

void add_argument(flight::Frame& frame, PyObject* object, Py_ssize_t operand, Py_ssize_t part) {
  if (frame.given++ >= flight::ARGUMENTS) return;
  flight::Argument& out = frame.arguments[frame.kept++];
  out.operand = static_cast<uint16_t>(operand);
  out.part = part < 0 || part >= NO_PART ? NO_PART : static_cast<uint16_t>(part);
  read_value(object, out);
}

void add_arguments(flight::Frame& frame, PyObject* values) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i) {
    PyObject* object = PyTuple_GET_ITEM(values, i);
    if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) {
      add_argument(frame, object, i, -1);
      continue;
    }
    const Py_ssize_t parts = PySequence_Fast_GET_SIZE(object);
    for (Py_ssize_t part = 0; part < parts; ++part)
      add_argument(frame, PySequence_Fast_GET_ITEM(object, part), i, part);
  }
}

// --- Recorder: the file ------------------------------------------------------------------------------------------

struct Recorder {
  PyObject_HEAD
  flight::Recorder* native;
};

int open_file(flight::Recorder* native, PyObject* args) {
  const char* path;
  unsigned int process, rank;
  unsigned long long process_start;
  if (!PyArg_ParseTuple(args, "sIKI", &path, &process, &process_start, &rank)) return -1;
  const int error = native->open(path, process, process_start, rank);
  if (error == 0) return 0;
  errno = error;
  PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
  return -1;
}

// Recorder(path, process, process_start, rank). What it maps stays mapped: other threads may be storing.
PyObject* recorder_new(PyTypeObject* type, PyObject* args, PyObject*) {
  auto* native = new flight::Recorder;
  if (open_file(native, args) < 0) {
    delete native;
    return nullptr;
  }
  auto* self = reinterpret_cast<Recorder*>(type->tp_alloc(type, 0));
  if (self != nullptr) self->native = native;
  return reinterpret_cast<PyObject*>(self);
}

PyObject* recorder_reopen(PyObject* self, PyObject* args) {
  if (open_file(reinterpret_cast<Recorder*>(self)->native, args) < 0) return nullptr;
  Py_RETURN_NONE;
}

PyObject* recorder_close(PyObject* self, PyObject*) {
  reinterpret_cast<Recorder*>(self)->native->close();
  Py_RETURN_NONE;
}

PyObject* recorder_add_program(PyObject* self, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  return PyLong_FromUnsignedLongLong(reinterpret_cast<Recorder*>(self)->native->add_program(text));
}

PyMethodDef recorder_methods[] = {
    {"reopen", recorder_reopen, METH_VARARGS, "Goes on in another file, in a forked child."},
    {"close", recorder_close, METH_NOARGS, "Marks the file as ended in good order."},
    {"add_program", recorder_add_program, METH_O, "Notes a program by its file's name; its number."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject recorder_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

// --- Probe: probe(number, values) ----------------------------------------------------------------------------------

// What a probe stands for: 2 * call before it, 2 * call + 1 after it, -1 elsewhere.
struct Probe {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* recorder;
  uint64_t program;
  std::vector<int64_t>* moments;
};

PyObject* probe_call(PyObject* callable, PyObject* const* args, size_t count, PyObject*) {
  auto* self = reinterpret_cast<Probe*>(callable);
  if (PyVectorcall_NARGS(count) != 2 || !PyTuple_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "a probe takes its number and a tuple of values");
    return nullptr;
  }
  const size_t number = PyLong_AsSize_t(args[0]);
  if (number >= self->moments->size()) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_IndexError, "there is no such probe");
    return nullptr;
  }
  const int64_t moment = (*self->moments)[number];
  if (moment < 0) Py_RETURN_NONE;
  flight::Recorder& native = *reinterpret_cast<Recorder*>(self->recorder)->native;
  flight::Slot* slot = native.slot();
  const uint32_t call = static_cast<uint32_t>(moment >> 1);
  if (slot == nullptr) {
    native.count_without();
  } else if (moment & 1) {
    native.end(slot, self->program, current_step, call);
  } else {
    flight::Frame* frame = native.begin(slot);
    if (frame != nullptr) add_arguments(*frame, args[1]);
    native.publish(slot, frame, self->program, current_step, call);
  }
  Py_RETURN_NONE;
}

// Probe(recorder, program, moments)
PyObject* probe_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *recorder, *given;
  unsigned long long program;
  if (!PyArg_ParseTuple(args, "O!KO!", &recorder_type, &recorder, &program, &PyTuple_Type, &given)) return nullptr;
  std::vector<int64_t> moments;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    moments.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(given, i)));
    if (PyErr_Occurred()) return nullptr;
  }
  auto* self = reinterpret_cast<Probe*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->call = probe_call;
  self->recorder = Py_NewRef(recorder);
  self->program = program;
  self->moments = new std::vector<int64_t>(std::move(moments));
  return reinterpret_cast<PyObject*>(self);
}

void probe_dealloc(PyObject* object) {
  auto* self = reinterpret_cast<Probe*>(object);
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF(self->recorder);
  delete self->moments;
  type->tp_free(object);
}

PyTypeObject probe_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

// --- Guard: a program's function, which says that a thread is in it, and whether it left by an exception ------------

struct Guard {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* recorder;
  PyObject* function;
  std::atomic<uint64_t> steps;
};

PyObject* guard_call(PyObject* callable, PyObject* const* args, size_t count, PyObject* names) {
  auto* self = reinterpret_cast<Guard*>(callable);
  flight::Recorder& native = *reinterpret_cast<Recorder*>(self->recorder)->native;
  flight::Slot* slot = native.slot();
  if (slot == nullptr) return PyObject_Vectorcall(self->function, args, count, names);
  const uint64_t outer_step = current_step;
  const uint32_t depth = slot->depth.load(std::memory_order_relaxed);
  current_step = self->steps.fetch_add(1, std::memory_order_relaxed);
  slot->inside.fetch_add(1, std::memory_order_relaxed);
  PyObject* result = PyObject_Vectorcall(self->function, args, count, names);
  slot = native.slot();  // another one where the process was forked meanwhile
  if (slot != nullptr) {
    if (result == nullptr) native.unwind(slot, depth);
    if (slot->inside.load() > 0) slot->inside.fetch_sub(1, std::memory_order_release);
  }
  current_step = outer_step;
  return result;
}

// Guard(recorder, function)
PyObject* guard_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *recorder, *function;
  if (!PyArg_ParseTuple(args, "O!O", &recorder_type, &recorder, &function)) return nullptr;
  auto* self = reinterpret_cast<Guard*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->call = guard_call;
  self->recorder = Py_NewRef(recorder);
  self->function = Py_NewRef(function);
  new (&self->steps) std::atomic<uint64_t>{0};
  return reinterpret_cast<PyObject*>(self);
}

int guard_traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<Guard*>(object);
  Py_VISIT(self->recorder);
  Py_VISIT(self->function);
  return 0;
}

int guard_clear(PyObject* object) {
  auto* self = reinterpret_cast<Guard*>(object);
  Py_CLEAR(self->recorder);
  Py_CLEAR(self->function);
  return 0;
}

void guard_dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  guard_clear(object);
  Py_TYPE(object)->tp_free(object);
}

PyTypeObject guard_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

// --- The module ------------------------------------------------------------------------------------------------------

void describe(PyTypeObject& type, const char* name, const char* doc, Py_ssize_t size, newfunc make) {
  type.tp_name = name;
  type.tp_doc = doc;
  type.tp_basicsize = size;
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_new = make;
}

bool ready_types() {
  describe(recorder_type, "kernelscope_flight.Recorder", "The flight recorder's file.", sizeof(Recorder), recorder_new);
  recorder_type.tp_methods = recorder_methods;
  describe(probe_type, "kernelscope_flight.Probe", "Stores which call is running.", sizeof(Probe), probe_new);
  probe_type.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  probe_type.tp_vectorcall_offset = offsetof(Probe, call);
  probe_type.tp_call = PyVectorcall_Call;
  probe_type.tp_dealloc = probe_dealloc;
  describe(guard_type, "kernelscope_flight.Guard", "Runs a program's function.", sizeof(Guard), guard_new);
  guard_type.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC;
  guard_type.tp_vectorcall_offset = offsetof(Guard, call);
  guard_type.tp_call = PyVectorcall_Call;
  guard_type.tp_traverse = guard_traverse;
  guard_type.tp_clear = guard_clear;
  guard_type.tp_dealloc = guard_dealloc;
  return PyType_Ready(&recorder_type) == 0 && PyType_Ready(&probe_type) == 0 && PyType_Ready(&guard_type) == 0;
}

bool add_type(PyObject* module, const char* name, PyTypeObject& type) {
  return PyModule_AddObjectRef(module, name, reinterpret_cast<PyObject*>(&type)) == 0;
}

PyModuleDef module = {PyModuleDef_HEAD_INIT, "kernelscope_flight", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_kernelscope_flight() {
  if (!kernelscope::find_tensor_types() || !ready_types()) return nullptr;
  PyObject* made = PyModule_Create(&module);
  if (made == nullptr) return nullptr;
  if (add_type(made, "Recorder", recorder_type) && add_type(made, "Probe", probe_type) &&
      add_type(made, "Guard", guard_type))
    return made;
  Py_DECREF(made);
  return nullptr;
}
