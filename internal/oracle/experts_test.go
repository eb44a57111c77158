// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"errors"
	"reflect"
	"testing"
)

const choicesLog = `number of input tokens = 8
common_debug_cb_eval:                 inp_embd = (f32)   GET_ROWS(token_embd.weight{2, 512, 1, 1}, inp_tokens{8, 1, 1, 1}}) = {2, 8, 1, 1}
common_debug_cb_eval:           ffn_moe_topk-0 = (i32)       VIEW(ffn_moe_argsort-0{16, 8, 1, 1}, }) = {2, 8, 1, 1}
    [
        [
            [      4.0000,       1.0000  ],
            [      3.0000,       0.0000  ],
            [      4.0000,      11.0000  ],
            ..., 
            [      4.0000,       1.0000  ],
            [      5.0000,       1.0000  ],
            [      4.0000,       2.0000  ],
        ],
    ]
    sum = 60.000000
common_debug_cb_eval:                   node_9 = (f32)        ADD(a{2, 1, 1, 1}, b{2, 1, 1, 1}}) = {2, 1, 1, 1}
    [
        [
            [      0.5000,       0.2500  ],
        ],
    ]
    sum = 0.750000
common_debug_cb_eval:           ffn_moe_topk-1 = (i32)       VIEW(ffn_moe_argsort-1{16, 0, 1, 1}, }) = {2, 0, 1, 1}
    [
    ]
    sum = 0.000000
common_debug_cb_eval:            result_output = (f32)    MUL_MAT(output.weight{2, 1, 1, 1}, result_norm{2, 1, 1, 1}}) = {2, 1, 1, 1}
`

func TestParseChoices(t *testing.T) {
	cs, err := parseChoices(choicesLog)
	if err != nil {
		t.Fatal(err)
	}
	want := []Choice{{Layer: 0, Used: 2, Tokens: 8, First: [][]int32{{4, 1}, {3, 0}, {4, 11}},
		Last: [][]int32{{4, 1}, {5, 1}, {4, 2}}, Sum: 60},
		{Layer: 1, Used: 2}}
	if !reflect.DeepEqual(cs, want) {
		t.Errorf("got %+v", cs)
	}
	for _, n := range []int{600, len(choicesLog) - 150} {
		if _, err := parseChoices(choicesLog[:n]); !errors.Is(err, ErrCut) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}
