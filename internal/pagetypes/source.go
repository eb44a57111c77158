// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
)

// sources are the packages' files, for what reflection does not have: documentation, and the constants of a
// type.
type sources struct {
	packages map[string]*source
}

type source struct {
	docs      map[string]string   // of "Type" and "Type.Field"
	constants map[string][]string // of a type, as they are written, in their order
}

func newSources() *sources { return &sources{packages: map[string]*source{}} }

// doc returns the documentation of a type, or of its field.
func (s *sources) doc(t reflect.Type, field string) string {
	key := t.Name()
	if field != "" {
		key += "." + field
	}
	return s.of(t).docs[key]
}

// constants returns the values of a string type's constants, in single quotes.
func (s *sources) constants(t reflect.Type) []string { return s.of(t).constants[t.Name()] }

func (s *sources) of(t reflect.Type) *source {
	path := t.PkgPath()
	if p := s.packages[path]; p != nil {
		return p
	}
	p := &source{docs: map[string]string{}, constants: map[string][]string{}}
	s.packages[path] = p
	dir, err := build.Import(path, ".", build.FindOnly)
	if err != nil {
		return p // without documentation then
	}
	files, err := filepath.Glob(filepath.Join(dir.Dir, "*.go"))
	if err != nil {
		return p
	}
	for _, name := range files { // in order of their names
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return p
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				p.read(g)
			}
		}
	}
	return p
}

func (p *source) read(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			p.docs[spec.Name.Name] = text(spec.Doc, g.Doc, spec.Comment)
			if st, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range st.Fields.List {
					for _, n := range f.Names {
						p.docs[spec.Name.Name+"."+n.Name] = text(f.Doc, f.Comment)
					}
				}
			}
		case *ast.ValueSpec:
			typ, ok := spec.Type.(*ast.Ident)
			if g.Tok != token.CONST || !ok {
				continue
			}
			for _, v := range spec.Values {
				if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					p.constants[typ.Name] = append(p.constants[typ.Name],
						"'"+strings.Trim(lit.Value, "\"`")+"'")
				}
			}
		}
	}
}

// text joins comments.
func text(groups ...*ast.CommentGroup) string {
	var out []string
	for _, c := range groups {
		if t := strings.TrimSpace(c.Text()); t != "" {
			out = append(out, t)
		}
	}
	return strings.Join(out, "\n")
}
