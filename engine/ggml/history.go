// SPDX-License-Identifier: Apache-2.0

package ggml

// era is a layout of struct ggml_tensor in ggml's history from a date on (LP64; -1: the field did not exist).
// It is used where a binary does not reveal an offset, and to check what it reveals; where the two differ,
// the binary is right.
type era struct {
	from                                                                         string
	ne, nb, op, params, paramsLen, flags, src, maxSrc, viewSrc, data, name, size int
}

// From the history of ggml.h. GGML_MAX_NAME is 64 in all of them unless a build overrides it, which changes
// only the size.
var eras = []era{
	{"2023-09-05", 16, 48, 80, 84, 32, -1, 128, 6, 200, 216, 224, 304},
	{"2023-10-06", 24, 56, 88, 92, 32, -1, 136, 6, 208, 224, 232, 320},
	{"2023-11-03", 24, 56, 88, 92, 64, -1, 168, 6, 240, 256, 264, 352},
	{"2023-12-13", 24, 56, 88, 92, 64, -1, 168, 10, 272, 288, 296, 384},
	{"2023-12-22", 16, 48, 80, 84, 64, 148, 160, 10, 264, 280, 288, 368},
	{"2024-06-26", 16, 48, 80, 84, 64, 148, 160, 10, 240, 256, 264, 336},
	{"2024-11-16", 16, 48, 80, 84, 64, 148, 152, 10, 232, 248, 256, 336},
}

// Other historical offsets, valid since mid-2024 and used only where a binary does not reveal them.
const (
	histGraphNNodes = 4  // struct ggml_cgraph, since 2023-10-30
	histGraphNodes  = 16 // "
	histGraphUID    = 0x58
	histParamsIth   = 0 // struct ggml_compute_params, since 2024-06-26
	histParamsNth   = 4
	histPlanThreads = 16  // struct ggml_cplan
	objectHeader    = 32  // sizeof(struct ggml_object), part of ggml_tensor_overhead
	maxName         = 64  // GGML_MAX_NAME
	maxTensor       = 384 // maximum number of bytes copied of a tensor: the largest tensor ever
)

// bestEra is the era that agrees with most of the offsets found, or the newer of two; nil if none agrees at
// all.
func bestEra(t *tensorLayout) *era {
	var best *era
	most := 0
	for i := range eras {
		e, n := &eras[i], 0
		for _, f := range t.fields() {
			if f.val >= 0 && f.val == f.of(e) {
				n++
			}
		}
		if n > 0 && n >= most {
			best, most = e, n
		}
	}
	return best
}
