// Copies of messages by their descriptors, and packing for a session. See clone.h.
#include "clone.h"

#include "map.h"
#include "proto.h"
#include "tensor.h"

#include <string.h>

enum {
  KEEP_OUT_BYTES = 1024,     // smaller initializers are not worth an entry of their own
  MAPPED_BYTES = 64 * 1024,  // nor are smaller ones worth a map of the engine's,
  MAPPED_MOST = 16384,       // of which a process can have 65530
  LARGE_BYTES = 256 * 1024 * 1024,
};

static void *place(void *message, unsigned offset) {
  return (uint8_t *)message + offset;
}

// The depth of messages is limited by the limits that the model was loaded with.
static ProtobufCMessage *clone_message(const ProtobufCMessage *from, struct arena *a) {
  const ProtobufCMessageDescriptor *type = from->descriptor;
  ProtobufCMessage *to = arena_alloc(a, type->sizeof_message);
  memcpy(to, from, type->sizeof_message);
  for (unsigned f = 0; f < type->n_fields; f++) {
    const ProtobufCFieldDescriptor *field = &type->fields[f];
    bool is_message = field->type == PROTOBUF_C_TYPE_MESSAGE;
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
      ProtobufCMessage **child = place(to, field->offset);
      // The fields of a oneof share their place: only the one that the case names is there.
      bool there = !(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
                   *(uint32_t *)place(to, field->quantifier_offset) == field->id;
      if (is_message && there && *child)
        *child = clone_message(*child, a);
      continue;
    }
    size_t count = *(size_t *)place(to, field->quantifier_offset);
    if (count == 0 || !(is_message || field->type == PROTOBUF_C_TYPE_STRING))
      continue;
    void ***list = place(to, field->offset);
    void **copy = arena_array(a, count, sizeof *copy);
    for (size_t i = 0; i < count; i++)
      copy[i] = is_message ? clone_message((*list)[i], a) : (*list)[i];
    *list = copy;
  }
  return to;
}

struct model clone_model(const struct model *m, struct arena *a) {
  struct model copy = *m;
  copy.arena = a;
  copy.proto = (Onnx__ModelProto *)clone_message(&m->proto->base, a);
  return copy;
}

static bool is_external(const Onnx__TensorProto *t) {
  return t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

struct inlining {
  struct model *model;
  struct arena *arena;
  struct diag *diag;
};

// Data of an external tensor becomes raw data (by reference to the mapped file).
static enum status inline_external(void *context, Onnx__TensorProto *t) {
  struct inlining *in = context;
  if (!is_external(t))
    return STATUS_OK;
  struct tensor view;
  TRY(tensor_read(in->model, t, in->arena, &view, in->diag));
  t->has_data_location = 0;
  t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
  t->n_external_data = 0;
  t->has_raw_data = 1;
  t->raw_data = (ProtobufCBinaryData){view.size, (uint8_t *)view.data};
  return STATUS_OK;
}

struct packing {
  struct packed_model *out;
  struct model *model;
  struct arena *arena;
  size_t n_mapped;
  uint64_t mapped;  // bytes
};

// Whether the data lies where the engine can map it, and is worth that.
static enum status find_place(struct packing *p, const struct tensor *view, const uint8_t **data,
                              const char **path, uint64_t *offset, bool *found, struct diag *d) {
  size_t alignment = tensor_element_bits(view->elem_type) / 8;
  *data = view->data;
  *found = false;
  if (view->size < MAPPED_BYTES || p->n_mapped == MAPPED_MOST)
    return STATUS_OK;
  TRY(model_aligned(p->model, view, data, d));
  *found = (uintptr_t)*data % alignment == 0 && model_find(p->model, *data, path, offset);
  p->n_mapped += *found;
  p->mapped += *found ? view->size : 0;
  return STATUS_OK;
}

// The message says that the data is external: in a file, or, where path is NULL, in no real one.
static void refer(Onnx__TensorProto *t, const char *path, uint64_t offset, size_t size,
                  struct arena *a) {
  Onnx__TensorProto empty = ONNX__TENSOR_PROTO__INIT;
  empty.name = t->name;
  empty.has_data_type = 1;
  empty.data_type = t->data_type;
  empty.n_dims = t->n_dims;
  empty.dims = t->dims;
  empty.has_data_location = 1;
  empty.data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  empty.n_external_data = 3;
  empty.external_data = arena_array(a, 3, sizeof *empty.external_data);
  empty.external_data[0] = proto_entry(a, "location", path ? path + 1 : "in-memory");
  empty.external_data[1] =
      proto_entry(a, "offset", arena_printf(a, "%llu", (unsigned long long)offset));
  empty.external_data[2] = proto_entry(a, "length", arena_printf(a, "%zu", size));
  *t = empty;
}

// Takes the data out of an initializer of the main graph.
static enum status keep_out(struct packing *p, Onnx__TensorProto *t, const struct tensor *view,
                            struct diag *d) {
  const uint8_t *data;
  const char *path;
  uint64_t offset = 0;
  bool in_file;
  TRY(find_place(p, view, &data, &path, &offset, &in_file, d));
  if (in_file)
    p->out->directory = "/";
  p->out->initializers[p->out->n_initializers++] = (struct engine_initializer){
      t->name, t->data_type, t->n_dims, t->dims, data, view->size, in_file};
  refer(t, in_file ? path : NULL, offset, view->size, p->arena);
  return STATUS_OK;
}

struct bodies {
  struct packing *packing;
  struct diag *diag;
};

// Any other tensor, of a body or an attribute, can only be read by the engine from a file.
static enum status leave_in_file(void *context, Onnx__TensorProto *t) {
  const struct bodies *b = context;
  if (t->raw_data.len < MAPPED_BYTES || tensor_element_bits(t->data_type) < 8)
    return STATUS_OK;
  struct tensor view;
  const uint8_t *data;
  const char *path;
  uint64_t offset = 0;
  bool in_file;
  TRY(tensor_read(b->packing->model, t, b->packing->arena, &view, b->diag));
  TRY(find_place(b->packing, &view, &data, &path, &offset, &in_file, b->diag));
  if (!in_file)
    return STATUS_OK;
  b->packing->out->directory = "/";
  refer(t, path, offset, view.size, b->packing->arena);
  return STATUS_OK;
}

enum name_space { READ, LISTED };  // by a node or as an output; among the inputs

// Names that bodies define themselves count too: that keeps an initializer at worst.
static void note_read(struct map *names, const Onnx__GraphProto *g) {
  for (size_t i = 0; i < g->n_output; i++)
    map_put(names, READ, text_of(g->output[i]->name), 0);
  for (size_t n = 0; n < g->n_node; n++) {
    const Onnx__NodeProto *node = g->node[n];
    for (size_t i = 0; i < node->n_input; i++)
      map_put(names, READ, node->input[i], 0);
    for (size_t k = 0; k < node->n_attribute; k++) {
      const Onnx__AttributeProto *attribute = node->attribute[k];
      if (attribute->g)
        note_read(names, attribute->g);
      for (size_t i = 0; i < attribute->n_graphs; i++)
        note_read(names, attribute->graphs[i]);
    }
  }
}

// The engine drops initializers that nobody reads while it loads a model, and then misses those
// that were kept out of it. One that is an input as well stays, or the input would have to be fed.
static void drop_unread(struct map *names, Onnx__GraphProto *g) {
  note_read(names, g);
  for (size_t i = 0; i < g->n_input; i++)
    map_put(names, LISTED, text_of(g->input[i]->name), 0);
  size_t kept = 0;
  for (size_t i = 0; i < g->n_initializer; i++) {
    const char *name = text_of(g->initializer[i]->name);
    if (map_get(names, READ, name) >= 0 || map_get(names, LISTED, name) >= 0)
      g->initializer[kept++] = g->initializer[i];
  }
  g->n_initializer = kept;
}

enum status clone_pack(struct packed_model *out, struct model *m, struct arena *a, struct diag *d) {
  struct inlining in = {.model = m, .arena = a, .diag = d};
  Onnx__GraphProto *graph = m->proto->graph;
  struct map names = {.arena = a};
  drop_unread(&names, graph);
  TRY(model_each_tensor(m->proto, inline_external, &in));
  *out = (struct packed_model){.initializers =
                                   arena_array(a, graph->n_initializer, sizeof *out->initializers)};
  struct packing packing = {.out = out, .model = m, .arena = a};
  for (size_t i = 0; i < graph->n_initializer; i++) {
    Onnx__TensorProto *t = graph->initializer[i];
    bool read = map_get(&names, READ, text_of(t->name)) >= 0;
    if (!read || t->raw_data.len < KEEP_OUT_BYTES || tensor_element_bits(t->data_type) < 8)
      continue;
    struct tensor view;
    TRY(tensor_read(m, t, a, &view, d));
    TRY(keep_out(&packing, t, &view, d));
  }
  // Engines before 1.21 find no file below another folder: only what they could not take at all.
  struct bodies bodies = {&packing, d};
  if (protobuf_c_message_get_packed_size(&m->proto->base) > INT32_MAX)
    TRY(model_each_tensor(m->proto, leave_in_file, &bodies));
  out->large = packing.mapped >= LARGE_BYTES;
  enum status status = model_pack(m->proto, a, &out->bytes, &out->size, d);
  if (status == STATUS_MODEL)
    diag_hint(d,
              "Beside its initializers the model is too large to run: move weights of bodies (of "
              "If, Loop, Scan) and of Constant nodes into initializers of the main graph.");
  return status;
}
