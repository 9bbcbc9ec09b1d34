// The adapters of raise_opset's table: each writes a node as a newer version of its operator wants
// it, with the same result, or refuses. Nodes that they make are of opset 13 or later, which is the
// least that a model is raised to.
#ifndef RAISE_ADAPTERS_H
#define RAISE_ADAPTERS_H

#include "raise_edit.h"

typedef enum status raise_adapter(struct raising *r, const struct subject *s);

// raise_inputs.c: what moves from one place of the node to another, or gets another name.
raise_adapter raise_ints_to_input, raise_new_shape, raise_pad, raise_clip, raise_slice, raise_top_k;
raise_adapter raise_split_sizes, raise_dropout_ratio, raise_upsample_scales, raise_dft;
raise_adapter raise_drop, raise_cast, raise_concat, raise_paddings, raise_whole_p, raise_selu;
raise_adapter raise_upsample_sides, raise_roi_align, raise_grid_sample;
raise_adapter raise_to_scatter_elements, raise_axis_of_split;

// raise_withdrawn.c: experimental operators that are no more.
raise_adapter raise_affine, raise_scale, raise_scaled_function, raise_image_scaler, raise_crop;
raise_adapter raise_to_slice;

// raise_meaning.c: what means something else by now.
raise_adapter raise_broadcast, raise_slope, raise_spatial, raise_batch_outputs, raise_mask;
raise_adapter raise_to_resize, raise_resize, raise_resize_modes, raise_softmax, raise_scan,
    raise_groups;

#endif
