// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/ops"
)

// Models finds the models of a run: sets of weights that one engine context uses, or that several contexts
// share.
type Models struct {
	models []*ModelWeights
	known  map[bookKey]*ModelWeights
	last   bookKey
	served map[int32]bool // processes that compute for other processes
}

type bookKey struct {
	shape *profile.Shape
	ctx   uint64
	pid   int32
}

// ModelWeights is one model while it is being collected.
type ModelWeights struct {
	pid     int32
	ctxs    map[uint64]bool   // that compute it now
	ever    map[uint64]bool   // that have ever computed it
	joined  *ModelWeights     // the model it turned out to be a part of
	weights map[string]weight // by name
	dims    ops.Dimensions
	words   ops.Vocabulary
}

// weight is what distinguishes tensors of the same name.
type weight struct {
	// Each backend can have its own copy (rope_freqs.weight, tied embeddings), so addresses distinguish
	// tensors only within one backend.
	backend string
	data    uint64
	typ     string
	ne      [4]int64
	bytes   int64 // -1: unknown
}

// see takes the weights of a graph definition that ran on a backend in ctx (0: unknown).
func (b *Models) see(pid int32, ctx uint64, sh *profile.Shape, backend string) {
	k := bookKey{sh, ctx, pid}
	if sh == nil || sh.Shape == nil || k == b.last || ctx == 0 && b.served[pid] {
		return
	}
	b.last = k
	if m, ok := b.known[k]; ok {
		b.use(m.whole(), pid, ctx)
		return
	}
	if b.known == nil {
		b.known = map[bookKey]*ModelWeights{}
	}
	b.known[k] = nil
	found := map[string]weight{}
	words := sh.Vocabulary()
	for i := range sh.Nodes {
		n := &sh.Nodes[i]
		if !n.Leaf || !words.IsWeight(n.Name) {
			continue
		}
		w := weight{backend: backend, data: n.Data, typ: n.Type, ne: n.Ne, bytes: -1}
		if v, ok := ops.Touched(n); ok {
			w.bytes = v
		}
		found[n.Name] = w
	}
	if len(found) == 0 {
		return
	}
	m := b.find(pid, ctx, found)
	b.known[k] = m
	b.use(m, pid, ctx)
	for name, w := range found {
		if _, ok := m.weights[name]; !ok {
			m.weights[name] = w
		}
	}
	m.words = words
	m.dims.Max(words.Dimensions(sh.Nodes))
}

// find returns the model that the weights belong to, a new one if they match none. Two models that the
// weights connect become one.
func (b *Models) find(pid int32, ctx uint64, found map[string]weight) *ModelWeights {
	var m *ModelWeights
	for i := 0; i < len(b.models); i++ {
		o := b.models[i]
		if o.pid != pid || !o.holds(ctx, found) {
			continue
		}
		if m == nil {
			m = o
			continue
		}
		for c := range o.ctxs {
			m.ctxs[c] = true
		}
		for c := range o.ever {
			m.ever[c] = true
		}
		o.joined = m
		for name, w := range o.weights {
			m.weights[name] = w
		}
		m.dims.Max(o.dims)
		b.models = slices.Delete(b.models, i, i+1)
		i--
	}
	if m == nil {
		m = &ModelWeights{pid: pid, ctxs: map[uint64]bool{}, ever: map[uint64]bool{},
			weights: map[string]weight{}}
		b.models = append(b.models, m)
	}
	return m
}

// holds reports whether the weights belong to this model: it already contains one of them, or the context. (A
// context's address can be reused for another model: then the same name is another tensor.)
func (m *ModelWeights) holds(ctx uint64, found map[string]weight) bool {
	shared := false
	for name, w := range found {
		if o, ok := m.weights[name]; ok {
			if o.ne != w.ne || o.backend == w.backend && (o.data != w.data || o.typ != w.typ) {
				return false
			}
			shared = shared || o.backend == w.backend
		}
	}
	return shared || ctx != 0 && m.ctxs[ctx]
}

// List returns the models found, the one with most parameters first.
func (b *Models) List() []Model {
	slices.SortStableFunc(b.models, func(a, b *ModelWeights) int {
		return cmp.Or(cmp.Compare(b.params(), a.params()), cmp.Compare(a.pid, b.pid))
	})
	out := make([]Model, 0, len(b.models))
	for _, m := range b.models {
		out = append(out, m.model())
	}
	return out
}

// Count returns how many models were found.
func (b *Models) Count() int { return len(b.models) }

// At returns the model that a context computes now, nil if unknown.
func (b *Models) At(pid int32, ctx uint64) *ModelWeights {
	for _, m := range b.models {
		if m.pid == pid && m.ctxs[ctx] {
			return m
		}
	}
	return nil
}

// Index returns a model's index in the order of List, -1 if unknown. If there is only one model, an unknown
// one is taken for it.
func (b *Models) Index(m *ModelWeights) int {
	if m == nil && len(b.models) == 1 {
		return 0
	}
	return slices.Index(b.models, m.whole())
}

// opBackend returns the backend that computes an operator, empty if unknown.
func opBackend(o *profile.Op) string {
	if o.Graph == nil {
		return ""
	}
	return o.Graph.Backend
}

// serves notes that a process computes a graph for another process, to whose model its weights belong.
func (b *Models) serves(g *profile.Graph) {
	if g == nil || g.Caller == nil || b.served[g.PID] {
		return
	}
	if b.served == nil {
		b.served = map[int32]bool{}
	}
	b.served[g.PID] = true
	b.models = slices.DeleteFunc(b.models, func(m *ModelWeights) bool {
		return m.pid == g.PID && len(m.ever) == 0
	})
	b.last = bookKey{}
}

// whole returns the model that m turned out to be a part of, m itself if there is none.
func (m *ModelWeights) whole() *ModelWeights {
	for m != nil && m.joined != nil {
		m = m.joined
	}
	return m
}

// use records that ctx computes m from now on. Its address can be that of a freed context.
func (b *Models) use(m *ModelWeights, pid int32, ctx uint64) {
	if ctx == 0 || m == nil || m.ctxs[ctx] {
		return
	}
	for _, o := range b.models {
		if o.pid == pid {
			delete(o.ctxs, ctx)
		}
	}
	m.ctxs[ctx], m.ever[ctx] = true, true
}

func (m *ModelWeights) params() (sum int64) {
	for _, w := range m.weights {
		if n, ok := ops.Product(w.ne[:]...); ok && sum+n >= sum {
			sum += n
		}
	}
	return sum
}

func (m *ModelWeights) model() Model {
	known := func(n int64) *int64 {
		if n <= 0 {
			return nil
		}
		return &n
	}
	ne := make(map[string][4]int64, len(m.weights))
	for name, w := range m.weights {
		ne[name] = w.ne
	}
	names, d := m.words.Model(ne), &m.dims
	v := Model{PID: m.pid, Contexts: len(m.ever), Family: names.Family, Layers: names.Layers,
		Width: known(names.Width), Vocab: known(d.Vocab),
		Heads: known(d.Heads), HeadsKV: known(d.HeadsKV), HeadDim: known(d.HeadDim),
		Experts: known(names.Experts), Used: known(d.ExpertsUsed),
		Types: []TypeMix{}}
	types := map[string]*TypeMix{}
	var bytes int64
	allBytes := true
	for _, w := range m.weights {
		n, ok := ops.Product(w.ne[:]...)
		if !ok {
			continue // invalid: no tensor has so many elements
		}
		v.Params += n
		t := types[w.typ]
		if t == nil {
			t = &TypeMix{Type: w.typ, Bytes: new(int64)}
			types[w.typ] = t
		}
		t.Tensors++
		t.Params += n
		if w.bytes < 0 {
			allBytes, t.Bytes = false, nil
		} else {
			bytes += w.bytes
			if t.Bytes != nil {
				*t.Bytes += w.bytes
			}
		}
	}
	if allBytes {
		v.Bytes = &bytes
	}
	for _, t := range types {
		v.Types = append(v.Types, *t)
	}
	slices.SortFunc(v.Types, func(a, b TypeMix) int {
		size := func(t TypeMix) int64 {
			if t.Bytes != nil {
				return *t.Bytes
			}
			return t.Params
		}
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a.Type, b.Type))
	})
	return v
}

// Model is what the weights of the executed graphs reveal. It leaves out weights that no graph used.
type Model struct {
	PID      int32     `json:"pid"`
	Contexts int       `json:"contexts"` // engine contexts that use these weights
	Family   string    `json:"family"`   // guessed from the weights' names; empty if unknown
	Layers   int       `json:"layers"`
	Width    *int64    `json:"width"`
	Vocab    *int64    `json:"vocab"`
	Heads    *int64    `json:"heads"`
	HeadsKV  *int64    `json:"heads_kv"`
	HeadDim  *int64    `json:"head_dim"`
	Experts  *int64    `json:"experts"`
	Used     *int64    `json:"experts_used"` // per token
	Params   int64     `json:"parameters"`
	Bytes    *int64    `json:"bytes"`
	Types    []TypeMix `json:"types"` // by bytes, largest first
}

// TypeMix is the part of a model's weights that is stored in one type.
type TypeMix struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Params  int64  `json:"parameters"`
	Bytes   *int64 `json:"bytes"`
}
