// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"cmp"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/trace"
)

// Models finds the models of a run: sets of weights that one engine context uses, or that
// several contexts share.
type Models struct {
	models []*ModelWeights
	known  map[bookKey]*ModelWeights
	last   bookKey
	served map[int32]bool // processes that compute for others
}

type bookKey struct {
	shape *profile.Shape
	ctx   uint64
	pid   int32
}

// ModelWeights is one model under way.
type ModelWeights struct {
	pid                           int32
	ctxs                          map[uint64]bool   // that compute it at present
	ever                          map[uint64]bool   // that ever did
	joined                        *ModelWeights     // what it turned out to be a part of
	weights                       map[string]weight // by name
	heads, headsKV, headDim, used int64
	vocab                         int64
}

// weight is what tells one tensor from another of the same name.
type weight struct {
	// Each backend can have a copy of its own (rope_freqs.weight, tied embeddings): addresses tell tensors apart within one only.
	backend string
	data    uint64
	typ     string
	ne      [4]int64
	bytes   int64 // -1: unknown
}

// see takes the weights of a shape that ran on a backend in ctx (0: not known in which).
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
	for i := range sh.Nodes {
		n := &sh.Nodes[i]
		if !n.Leaf || !ops.IsWeightName(n.Name) {
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
	m.look(sh.Nodes)
}

// find returns the model that the weights belong to, a new one if it is none seen so far. Two
// models that the weights connect become one.
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
		m.heads, m.headsKV = max(m.heads, o.heads), max(m.headsKV, o.headsKV)
		m.headDim, m.used, m.vocab = max(m.headDim, o.headDim), max(m.used, o.used), max(m.vocab, o.vocab)
		b.models = slices.Delete(b.models, i, i+1)
		i--
	}
	if m == nil {
		m = &ModelWeights{pid: pid, ctxs: map[uint64]bool{}, ever: map[uint64]bool{}, weights: map[string]weight{}}
		b.models = append(b.models, m)
	}
	return m
}

// holds is true if the weights are of this model: one of them is in it already, or the context
// is (its address can be used again for another model: then the same name means another tensor).
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

// look takes what operators tell of a model's shape.
func (m *ModelWeights) look(nodes []trace.Node) {
	for i := range nodes {
		n := &nodes[i]
		switch n.Op {
		case "FLASH_ATTN_EXT":
			// q [dk, n_tokens, n_head], k [dk, n_kv, n_head_kv]
			if q, k := ops.Source(nodes, n, 0), ops.Source(nodes, n, 1); q != nil && k != nil {
				m.heads, m.headsKV, m.headDim = max(m.heads, q.Ne[2]), max(m.headsKV, k.Ne[2]), max(m.headDim, q.Ne[0])
			}
		case "MUL_MAT":
			// Attention scores kq = k [d, n_kv, n_head_kv] * q [d, n_tokens, n_head].
			// The engine names the result or leaves it unnamed, but k is a view of the cache.
			base, _ := ops.SplitName(n.Name)
			if k, q := ops.Source(nodes, n, 0), ops.Source(nodes, n, 1); k != nil && q != nil {
				if of, _ := ops.SplitName(k.Name); base == "kq" || of == "cache_k" {
					m.heads, m.headsKV, m.headDim = max(m.heads, q.Ne[2]), max(m.headsKV, k.Ne[2]), max(m.headDim, q.Ne[0])
				}
			}
		case "MUL_MAT_ID":
			if ids := ops.Source(nodes, n, 2); ids != nil {
				m.used = max(m.used, ids.Ne[0])
			}
		}
		if n.Name == "result_output" {
			m.vocab = max(m.vocab, n.Ne[0])
		}
	}
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

// Count is how many models were found.
func (b *Models) Count() int { return len(b.models) }

// At returns the model that a context computes at present, nil if it is not known.
func (b *Models) At(pid int32, ctx uint64) *ModelWeights {
	for _, m := range b.models {
		if m.pid == pid && m.ctxs[ctx] {
			return m
		}
	}
	return nil
}

// Index returns a model's place in list's order, -1 if it is not known. What is not known is
// taken to be of the one model, where there is but one.
func (b *Models) Index(m *ModelWeights) int {
	if m == nil && len(b.models) == 1 {
		return 0
	}
	return slices.Index(b.models, m.whole())
}

// opBackend returns the backend that computes an operator, empty if it is not known.
func opBackend(o *profile.Op) string {
	if o.Graph == nil {
		return ""
	}
	return o.Graph.Backend
}

// serves takes that a process computes a graph for another, whose model its weights are a part of.
func (b *Models) serves(g *profile.Graph) {
	if g == nil || g.Caller == nil || b.served[g.PID] {
		return
	}
	if b.served == nil {
		b.served = map[int32]bool{}
	}
	b.served[g.PID] = true
	b.models = slices.DeleteFunc(b.models, func(m *ModelWeights) bool { return m.pid == g.PID && len(m.ever) == 0 })
	b.last = bookKey{}
}

// whole returns the model that m turned out to be a part of, m itself if there is none.
func (m *ModelWeights) whole() *ModelWeights {
	for m != nil && m.joined != nil {
		m = m.joined
	}
	return m
}

// use says that ctx computes m from now on. An address can be that of a context that is gone.
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
	v := Model{PID: m.pid, Contexts: len(m.ever), Family: m.family(), Types: []TypeMix{}}
	known := func(n int64) *int64 {
		if n <= 0 {
			return nil
		}
		return &n
	}
	v.Heads, v.HeadsKV, v.HeadDim = known(m.heads), known(m.headsKV), known(m.headDim)
	v.Used, v.Vocab = known(m.used), known(m.vocab)
	types := map[string]*TypeMix{}
	layers := map[int]bool{}
	var bytes int64
	allBytes := true
	for name, w := range m.weights {
		layer, rest := ops.SplitWeight(name)
		if layer >= 0 {
			layers[layer] = true
		}
		n, ok := ops.Product(w.ne[:]...)
		if !ok {
			continue // nonsense: no tensor has so many elements
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
		switch {
		case rest == "token_embd.weight":
			v.Width = known(w.ne[0])
		case rest == "output_norm.weight" && v.Width == nil:
			v.Width = known(w.ne[0])
		case strings.HasSuffix(rest, "_exps.weight"):
			v.Experts = known(w.ne[2])
		}
	}
	v.Layers = len(layers)
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

// family guesses the kind of model by which weights it has; the names are those of
// gguf-py/gguf/constants.py. Architectures that differ in nothing but numbers (llama, mistral)
// go by the first of them. Empty if the names tell nothing.
func (m *ModelWeights) family() string {
	has := map[string]bool{}
	for name := range m.weights {
		_, rest := ops.SplitWeight(name)
		has[rest] = true
	}
	any := func(prefix string) bool {
		for k := range has {
			if strings.HasPrefix(k, prefix) {
				return true
			}
		}
		return false
	}
	moe := ""
	if has["ffn_gate_inp.weight"] || has["ffn_up_exps.weight"] || has["ffn_gate_up_exps.weight"] {
		moe = " moe"
	}
	switch {
	case any("time_mix_"):
		return "rwkv"
	case any("ssm_") && any("attn_q"):
		return "hybrid ssm" + moe
	case any("ssm_"):
		return "mamba" + moe
	case has["attn_kv_a_mqa.weight"]:
		return "deepseek2" + moe
	case has["token_types.weight"] || any("attn_output_norm"):
		return "bert" + moe
	case has["post_ffw_norm.weight"] && has["attn_q_norm.weight"]:
		return "gemma3" + moe
	case has["post_ffw_norm.weight"]:
		return "gemma2" + moe
	case has["attn_sinks.weight"]:
		return "gpt-oss" + moe
	case has["attn_q_norm.weight"] && has["ffn_norm.weight"]:
		return "qwen3" + moe
	case has["attn_q.bias"] && (has["ffn_gate.weight"] || moe != ""):
		return "qwen2" + moe
	case has["position_embd.weight"]:
		return "gpt2" + moe
	case has["attn_qkv.weight"] && has["ffn_up.weight"] && !has["ffn_gate.weight"]:
		return "phi3" + moe
	case any("attn_q") && (has["ffn_gate.weight"] || moe != ""):
		return "llama" + moe
	}
	return strings.TrimSpace(moe)
}

// Model is what the weights of the graphs that ran tell. Weights that no graph used are not
// in it.
type Model struct {
	PID      int32     `json:"pid"`
	Contexts int       `json:"contexts"` // engine contexts that use these weights
	Family   string    `json:"family"`   // guessed by the weights' names; empty if they tell nothing
	Layers   int       `json:"layers"`
	Width    *int64    `json:"width"`
	Vocab    *int64    `json:"vocab"`
	Heads    *int64    `json:"heads"`
	HeadsKV  *int64    `json:"heads_kv"`
	HeadDim  *int64    `json:"head_dim"`
	Experts  *int64    `json:"experts"`
	Used     *int64    `json:"experts_used"` // a token
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
