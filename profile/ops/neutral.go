// SPDX-License-Identifier: Apache-2.0

package ops

import "github.com/profinfer/profinfer/trace"

// Neutral is the vocabulary of an unknown engine: names are taken as they are, and have no meaning.
type Neutral struct{}

var _ Vocabulary = Neutral{}

func (Neutral) SplitName(name string) (base string, layer int)               { return name, -1 }
func (Neutral) IsDefaultName(string) bool                                    { return false }
func (Neutral) CopyOf(name string) string                                    { return name }
func (Neutral) IsWeight(string) bool                                         { return false }
func (Neutral) IsCache(string) bool                                          { return false }
func (Neutral) WeightLayer(string) int                                       { return -1 }
func (Neutral) WeightStem(name string) string                                { return name }
func (Neutral) WeightRow(name string, _ Block) string                        { return name }
func (Neutral) WeightOf([]trace.Node, []int32) int32                         { return -1 }
func (Neutral) ReadsWeight(string, string) bool                              { return true }
func (Neutral) IsProduct(string) bool                                        { return false }
func (Neutral) Class(string, Block, bool) Class                              { return ClassUnknown }
func (Neutral) Kind(string, Block, bool) Kind                                { return KindOther }
func (Neutral) Bytes([]trace.Node, []int32) (*int64, bool)                   { return nil, false }
func (Neutral) Flops([]trace.Node, []int32) *int64                           { return nil }
func (Neutral) Product([]trace.Node, *trace.Node) (p MatrixProduct, ok bool) { return p, false }
func (Neutral) Cells([]trace.Node, *trace.Node) int64                        { return 0 }
func (Neutral) Writes(*trace.Node, int) bool                                 { return false }
func (Neutral) RowsOfOutputs([]trace.Node, *trace.Node) bool                 { return false }
func (Neutral) HasSettings(string) bool                                      { return false }
func (Neutral) ExpertSources([]trace.Node, *trace.Node) (_, _ int32)         { return -1, -1 }
func (Neutral) ExpertBytes([]trace.Node, *trace.Node) (int64, bool)          { return 0, false }
func (Neutral) AreExperts([]trace.Node, int32) bool                          { return false }
func (Neutral) Dimensions([]trace.Node) Dimensions                           { return Dimensions{} }
func (Neutral) Model(map[string][4]int64) ModelNames                         { return ModelNames{} }
func (Neutral) CallComputes(backend string) bool                             { return backend == "CPU" }
func (Neutral) HandsOver(string) bool                                        { return false }
func (Neutral) Variant(string) string                                        { return "" }

// NameShape assigns no layer to any node.
func (Neutral) NameShape(nodes []trace.Node) *ShapeNames {
	s := &ShapeNames{Layer: make([]int, len(nodes)), Block: make([]Block, len(nodes))}
	for i := range nodes {
		s.Layer[i], s.Block[i] = -1, BlockOther
	}
	return s
}
