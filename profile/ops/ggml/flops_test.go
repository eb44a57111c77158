// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"go/ast"
	"go/parser"
	"strings"
	"testing"
)

// formulas are what ggml-cpu computes for an element of the result, from its elements x and y.
var formulas = map[string]string{
	"ADD": "x + y", "SUB": "x - y", "MUL": "x * y", "DIV": "x / y",
	"SQR": "x * x", "SQRT": "sqrt(x)", "LOG": "log(x)", "SIN": "sin(x)", "COS": "cos(x)",
	"CLAMP": "min(max(x, a), b)",
	"ABS":   "abs(x)", "NEG": "-x", "TANH": "tanh(x)", "RELU": "max(x, 0)", "EXP": "exp(x)",
	"EXPM1": "exp(x) - 1", "ELU": "exp(x) - 1",
	"SOFTPLUS":    "log(1 + exp(x))",
	"SIGMOID":     "1 / (1 + exp(-x))",
	"SILU":        "x / (1 + exp(-x))",
	"HARDSIGMOID": "min(1, max(0, (x + 3) / 6))",
	"HARDSWISH":   "x * min(1, max(0, (x + 3) / 6))",
	"GELU":        "0.5 * x * (1 + tanh(c * x * (1 + a * x * x)))",
	"GELU_ERF":    "0.5 * x * (1 + erf(x * c))",
	"GELU_QUICK":  "x * (1 / (1 + exp(c * x)))",
	"SWIGLU_OAI":  "min(x, l) / (1 + exp(a * -x)) * (max(min(y, l), m) + 1)",
}

// What an operator computes for an element is the number of operations in its formula; a gated unit multiplies
// once more.
func TestFlopsOfFormulas(t *testing.T) {
	gated := map[string]string{"REGLU": "RELU", "GEGLU": "GELU", "SWIGLU": "SILU", "GEGLU_ERF": "GELU_ERF",
		"GEGLU_QUICK": "GELU_QUICK"}
	for op, of := range gated {
		formulas[op] = "y * (" + formulas[of] + ")"
	}
	for op, text := range formulas {
		e, err := parser.ParseExpr(text)
		if err != nil {
			t.Fatal(op, err)
		}
		var want int64
		ast.Inspect(e, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.BinaryExpr, *ast.UnaryExpr, *ast.CallExpr:
				want++
			}
			return true
		})
		if got, ok := flopsPerElement[op]; !ok || got != want {
			t.Errorf("%s is %s: %d flops, want %d", op, strings.TrimSpace(text), got, want)
		}
	}
}
