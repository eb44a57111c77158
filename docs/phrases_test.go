// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A phrase is a house word that the field has another word for: glossary.md has the words that are used.
type phrase struct {
	not     string // a regular expression, also across line ends; case counts for none
	instead string
	but     string // where this matches, the phrase is meant otherwise and may stand
}

// phrases are not used in anything that people read.
var phrases = []phrase{
	// what it is for
	{not: `shows where the time of`, instead: "profiles"},
	{not: `took (your|a) core`, instead: "preempted an inference thread"},
	{not: `costs your engine`, instead: "profiling overhead on your workload"},
	{not: `machine'?s roofs?\b|gives at most|machine can do at most`, instead: "roofline, peak bandwidth and FLOP/s"},
	{not: `rooms and the way of the data|the data's way`, instead: "package layout and data flow"},
	{not: `\bwhy it is so\b`, instead: "design rationale"},
	{not: `whoever knows a (package|room)'?s? name|knows a package's name`, instead: "each package has one responsibility"},

	// probes and recordings
	{not: `\bhits\b|\b(an?|one|two|three|each|same|per|that|probe) hit\b|\bhit (an?|per) \w+`, instead: "probe event", but: `hit rates?|cache hits?|two-hits|faults? hits?`},
	{not: `\barrivals?\b`, instead: "barrier arrival", but: `barrier arrivals?`},
	{not: `(record(ed|s)?|operators|kept|works?) (\w+ )?in spans|by spans, not|sampled in spans`, instead: "sampling windows"},
	{not: `floor for service|service floor`, instead: "minimum decode rate"},
	{not: `events? lost\b|lost events?\b|\blost \d+\b`, instead: "dropped"},
	{not: `(recording|file|trace|page) (was|is) cut\b|cut: it has no end|cut in the middle`, instead: "truncated"},
	{not: `\bverbs?\b`, instead: "command"},
	{not: `a question\b|\bquestions? (of|for) .{0,3}--counters|what a question|a question's`, instead: "preset", but: `a question of your own`},
	{not: `nobody vouches for`, instead: "untrusted input"},
	{not: `mistake of profinfer|defect of profinfer`, instead: "a bug in profinfer"},
	{not: `\bas it says\b`, instead: "the fix itself"},
	{not: `loses no more than`, instead: "keeps overhead below"},

	// scheduling
	{not: `\binterference\b|\binterf\b`, instead: "CPU contention"},
	{not: `\bthere ran\b|\b(who|it|team|others?|process|processes|threads?|which) ran there|\bran there (for|instead|meanwhile)|\bran instead\b`, instead: "preempted by"},
	{not: `\bno CPU for\b|(had|has|have) no CPU\b|ready, no CPU|could run and did not`, instead: "runnable"},
	{not: `\b(had|has|have) lost (its|their) CPUs?|lost its CPU|lost their CPUs?|loses its CPU|lose their CPUs?`, instead: "preempted, off-CPU"},
	{not: `\bits team\b|threads of the same team`, instead: "same process; oversubscription"},
	{not: `hypervisor ran`, instead: "steal time"},
	{not: `late on its CPU`, instead: "load imbalance"},
	{not: `(wait|waits|waiting) for the others\b|lost waiting for`, instead: "barrier wait"},
	{not: `who took CPUs|took CPUs from|operators that paid|threads that waited\b`, instead: "CPU contention by process; operators delayed"},
	{not: `as threads wait for each other|threads wait for each other`, instead: "barrier wait"},

	// verdicts
	{not: `bound by (interference|wait)`, instead: "contention-bound"},
	{not: `no one thing bounds`, instead: "no single bottleneck"},
	{not: `\bhow sure\b|\bsure:|surer\b`, instead: "confidence"},
	{not: `told apart|tell apart`, instead: "cannot separate, distinguish"},
	{not: `(not )?(to be )?told from (0|zero)|from 0 on\b.{0,20}told|not told\b`, instead: "statistically significant; unattributed"},
	{not: `of (the )?roofs?\b|of (the )?\w+('s)? roofs?\b|\broof of\b|\b[mc] \d+ %`, instead: "% of peak"},
	{not: `, of it\b|^of it$|[>\"*] *of it[<\"*]|  of it\b|\bof it (\d|in\b|by\b)`, instead: "% of peak, part"},
	{not: `most worth|worth a look|worth looking at`, instead: "top opportunities"},
	{not: `products? with (a )?weights?|attention itself|attention's own|matrix products?`, instead: "weight matmul, attention, matmul"},
	{not: `reading (the )?weights and unpacking`, instead: "memory stalls and dequantisation"},

	// figures
	{not: `has its nodes, (its )?copies`, instead: "per-graph spans, copies and queue submissions"},
	{not: `on average, p95`, instead: "mean, p50, p95"},
	{not: `first token after`, instead: "TTFT"},
	{not: `from one token to the next|token gaps?\b|time between tokens`, instead: "ITL, inter-token latency"},
	{not: `\bgaps\b`, instead: "outside operators"},
	{not: `between operators`, instead: "outside operators"},
	{not: `in no graph\b`, instead: "outside graphs"},
	{not: `\btimes? an? (step|token|call|graph|second)\b|\b(tokens?|events?|calls?|bytes|figures?|[mµun]?s|seconds?|MiB|GiB|KiB|operators?|rows?|tracks?|graphs?|lanes?|number|batch(es)?|file|means?|choices?) an? (step|token|call|second|graph|row|layer|operator|thread|round|request|sequence|batch|column)\b`, instead: "per", but: `times a second`},
	{not: `\b(MFLOP|GFLOP|MiB|GiB|KiB|GB|hits|calls|ms|µs|us) a (call|step|token|second)\b|\b(backend|copies|products|process|operators), a (step|graph)\b|\(a step\)`, instead: "per"},
	{not: `flop/B\b|FLOP/B\b`, instead: "FLOP/byte"},
	{not: `(?-i:GFlop|Gflop|GFLOPS|gflop/s)`, instead: "GFLOP/s"},
	{not: `nine tenths|the middle half`, instead: "P5 to P95, interquartile range"},
	{not: `must move|that must be moved`, instead: "bytes moved (min)"},

	// slow steps
	{not: `\bneighbou?rs?\b`, instead: "local baseline"},
	{not: `\bexcess\b`, instead: "excess latency", but: `excess latency|^excess$|baseline +excess`},
	{not: `longest beyond the usual|beyond (its|their|the) usual`, instead: "largest operator regressions"},
	{not: `made anew`, instead: "graph rebuilt"},

	// experts, servers, other backends
	{not: `least lately used|would have held|a cache of so many`, instead: "simulated LRU cache, hit rate"},
	{not: `by chance\b`, instead: "random baseline"},
	{not: `\bbusiest\b`, instead: "max/mean load"},
	{not: `a new one adds|each that is new`, instead: "cost per newly activated expert"},
	{not: `step that verifies|steps that verify|steps before it\b`, instead: "verification step, drafting"},
	{not: `tokens a round`, instead: "tokens per round"},
	{not: `figures above are of the calls|until the results of|submit only|until waited for`, instead: "end to end; submit time"},
	{not: `to server, from it|\bon the wire\b`, instead: "bytes out, bytes in; RPC overhead"},
	{not: `queue is not seen`, instead: "excludes queueing"},
	{not: `prefill against decode`, instead: "prefill vs. decode"},
	{not: `faults and disk`, instead: "page faults & I/O"},
}

// places are what is searched: files, and folders with what lies below them.
var places = []string{
	"ARCHITECTURE.md",
	"CHANGELOG.md",
	"CONTRIBUTING.md",
	"SECURITY.md",
	"docs/README.md",
	"docs/arm64.md",
	"docs/commands.md",
	"docs/counters.md",
	"docs/design-notes.md",
	"docs/experts.md",
	"docs/export.md",
	"docs/faults.md",
	"docs/gallery.md",
	"docs/glossary.md",
	"docs/internals.md",
	"docs/overhead.md",
	"docs/paper.md",
	"docs/peaks.md",
	"docs/record.md",
	"docs/report.md",
	"docs/servers.md",
	"docs/symptoms.md",
	"docs/trace-format.md",
	"docs/verdict.md",
	"docs/stat.md",
	"demo",
	"doctor",
	"engine",
	"overhead",
	"peaks",
	"pmu",
	"probe",
	"record",
	"target",
	"trace",
	"views/doctor",
	"views/dot",
	"views/perfetto",
	"views/pprof",
	"web/src",
	"docs/tables.md",
	"views/tables",
	"docs/offload.md",
	"cmd",
	"profile",
	"views/terminal",
	"views/report",
	"README.md",
	"docs/samples.md",
	"docs/slow.md",
	"docs/troubleshooting.md",
}

// allowed are phrases that may stand in a file, by their beginning in the list: names of a format, of columns,
// of fields.
var allowed = map[string][]string{
	"docs/tables.md":                 {`\bhits\b`},
	"docs/trace-format.md":           {`\bhits\b`},
	"probe/mode.go":                  {`\barrivals?\b`},
	"profile/profiletest/run.go":     {`\bhits\b`, `events? lost`},
	"profile/profiletest/hostile.go": {`events? lost`},
	"record/steer.go":                {`\bhits\b`},
	"trace/format.go":                {`\bhits\b`},
	"trace/schema.go":                {`\barrivals?\b`},
	"views/terminal/headline.go":     {`\bhits\b`},
	"trace/words.go":                 {`\bhits\b`},
}

var phraseForms = func() (out []*regexp.Regexp) {
	for _, p := range phrases { // words can be apart, where a line is broken
		not := strings.ReplaceAll(strings.ReplaceAll(p.not, " ", " +"), " +*", " *")
		out = append(out, regexp.MustCompile(`(?i)`+not))
	}
	return out
}()

var phraseButs = func() (out []*regexp.Regexp) {
	for _, p := range phrases {
		if p.but == "" {
			p.but = `^\b$`
		}
		out = append(out, regexp.MustCompile(`(?i)`+p.but))
	}
	return out
}()

// found is a phrase in a text.
type found struct {
	line   int
	phrase phrase
	text   string
}

// unused finds phrases in a piece of text that begins at a line.
func unused(line int, text string) (out []found) {
	flat := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, text)
	for i, p := range phrases {
		rest := phraseButs[i].ReplaceAllStringFunc(flat, func(s string) string { return strings.Repeat("\x00", len(s)) })
		for _, at := range phraseForms[i].FindAllStringIndex(rest, -1) {
			from, to := max(0, at[0]-30), min(len(flat), at[1]+30)
			out = append(out, found{line + strings.Count(text[:at[0]], "\n"), p, flat[from:to]})
		}
	}
	return out
}

// A piece is text that people read, and the line where it begins.
type piece struct {
	line int
	text string
}

// prose is a Markdown file without names in code (`wait_ns`), which are formats' and programs'.
func prose(text string) []piece {
	code := regexp.MustCompile("`[^`\n ]*`")
	return []piece{{1, code.ReplaceAllStringFunc(text, func(s string) string { return "`" + strings.Repeat("\x00", len(s)-2) + "`" })}}
}

// literals are the strings of a Go file, those that are added up as one; tags and imports are none.
func literals(name string, src []byte) ([]piece, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []piece
	var sum func(ast.Expr) string
	sum = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			if e.Kind == token.STRING {
				s, _ := strconv.Unquote(e.Value)
				return s
			}
		case *ast.BinaryExpr:
			if e.Op == token.ADD {
				return sum(e.X) + sum(e.Y)
			}
		case *ast.ParenExpr:
			return sum(e.X)
		}
		return "\x00"
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.BinaryExpr:
			if n.Op == token.ADD {
				if s := sum(n); strings.Trim(s, "\x00") != "" {
					out = append(out, piece{set.Position(n.Pos()).Line, s})
					return false
				}
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				out = append(out, piece{set.Position(n.Pos()).Line, sum(n)})
			}
		}
		return true
	})
	return out, nil
}

// scriptText are the strings of a TypeScript file and the text between its tags, without comments and imports.
func scriptText(src string) []piece {
	var out []piece
	var code strings.Builder // what is no string, at the same lines
	line, codeLine := 1, 1
	flush := func() {
		between := regexp.MustCompile(`[>}]([^<>{};=]*[A-Za-z][^<>{};=]*)[<{]`)
		text := code.String()
		for _, at := range between.FindAllStringSubmatchIndex(text, -1) {
			if declaration.MatchString(text[at[2]:at[3]]) {
				continue
			}
			out = append(out, piece{codeLine + strings.Count(text[:at[2]], "\n"), text[at[2]:at[3]]})
		}
	}
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case strings.HasPrefix(src[i:], "//") && (i == 0 || src[i-1] != ':'):
			for i < len(src) && src[i] != '\n' {
				i++
			}
		case strings.HasPrefix(src[i:], "/*"):
			end := strings.Index(src[i:], "*/")
			if end < 0 {
				end = len(src) - i - 2
			}
			n := strings.Count(src[i:i+end+2], "\n")
			code.WriteString(strings.Repeat("\n", n))
			line += n
			i += end + 2
		case c == '"' || c == '`' || c == '\'' && (i == 0 || !isLetter(src[i-1])):
			begin, at := i+1, line
			for i++; i < len(src) && src[i] != c && (c == '`' || src[i] != '\n'); i++ {
				if src[i] == '\\' {
					i++
				}
				if i < len(src) && src[i] == '\n' {
					line++
					code.WriteByte('\n')
				}
			}
			text := src[begin:min(i, len(src))]
			if c == '`' {
				text = regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllString(text, "\x00")
			}
			if !className.MatchString(text) {
				out = append(out, piece{at, text})
			}
			i++
		default:
			if c == '\n' {
				line++
			}
			code.WriteByte(c)
			i++
		}
	}
	flush()
	return out
}

var (
	// code between braces that is no text
	declaration = regexp.MustCompile(`\b(export|function|interface|import|return|const|type) `)
	// paths, classes and names of fields
	className = regexp.MustCompile(`^[.@]|^[a-z0-9]+([-_.:/][a-z0-9]+)+$`)
)

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// pieces are what people read of a file; nothing of files that are not theirs.
func pieces(name string) ([]piece, error) {
	base := filepath.Base(name)
	switch {
	case strings.HasSuffix(name, "_test.go"), strings.HasPrefix(base, "kernel_"), strings.Contains(name, "testdata/"):
		return nil, nil
	}
	ext := filepath.Ext(name)
	if ext != ".md" && ext != ".go" && ext != ".ts" && ext != ".tsx" && ext != ".txt" {
		return nil, nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	switch ext {
	case ".go":
		return literals(name, b)
	case ".md", ".txt":
		return prose(string(b)), nil
	}
	return scriptText(string(b)), nil
}

func TestPhrasesThatAreNotUsed(t *testing.T) {
	n := 0
	for _, place := range places {
		err := filepath.WalkDir(filepath.Join("..", place), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name := strings.TrimPrefix(filepath.ToSlash(path), "../")
			texts, err := pieces(path)
			n += len(texts)
			for _, p := range texts {
				for _, f := range unused(p.line, p.text) {
					if !isAllowed(name, f) {
						t.Errorf("%s:%d: %q: write %s", name, f.line, f.text, f.phrase.instead)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if n < len(places) {
		t.Errorf("%d texts were searched", n)
	}
}

func isAllowed(name string, f found) bool {
	for _, begin := range allowed[filepath.ToSlash(name)] {
		if strings.HasPrefix(f.phrase.not, begin) {
			return true
		}
	}
	return false
}

// Each place is searched: a phrase put into it is found, in code that is no text it is not.
func TestPhrasesAreFound(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.md", "# T\n\nthe thread had\nno CPU\n", "[3]"},
		{"a.md", "the column `no_cpu_for` and `hits`\n", "[]"},
		{"a.md", "    the thread had no\n      CPU\n", "[1]"},
		{"a.md", "a hit rate and\n\n    of roof  m 66 %\n", "[3 3]"},
		{"a.go", "package a\n\n// there ran\nvar s = \"there \" +\n\t\"ran\"\n", "[4]"},
		{"a.go", "package a\n\nimport _ \"neighbours\"\n\ntype hits struct {\n\tA int `json:\"excess\"`\n}\n", "[]"},
		{"a.go", "package a\n\nvar s = f(\"x\", `a\nneighbour`)\n", "[4]"},
		{"a.tsx", "// hits\nconst hits = 1;\nconst a = <p title=\"neighbours\">no CPU for {x}</p>;\n", "[3 3]"},
		{"a.tsx", "const c = <p class=\"excess-less\">a</p>;\n}\nexport function neighbours(g: number) {\n}\n", "[]"},
		{"a.ts", "/* excess\n */\nexport const say = `of ${hits} roofs: ${n} hits`;\n", "[3]"},
	} {
		var got []int
		var texts []piece
		switch filepath.Ext(c.name) {
		case ".md":
			texts = prose(c.text)
		case ".go":
			var err error
			if texts, err = literals(c.name, []byte(c.text)); err != nil {
				t.Fatal(err)
			}
		default:
			texts = scriptText(c.text)
		}
		for _, p := range texts {
			for _, f := range unused(p.line, p.text) {
				got = append(got, f.line)
			}
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s %q: found in lines %v, want %s", c.name, c.text, got, c.want)
		}
	}
}
