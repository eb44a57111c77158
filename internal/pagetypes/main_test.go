// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/report"
)

// TestCommitted: the committed types are those of the Go types.
func TestCommitted(t *testing.T) {
	want, err := generate(report.IndexType(), report.Sections())
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../web/src/api/types.ts")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("web/src/api/types.ts is not what the Go types give: go generate ./views/report")
	}
}

// TestSections: in every made-up recording each section holds what the types say: fields, and null only where
// they allow it.
func TestSections(t *testing.T) {
	types := map[string]report.Section{}
	for _, s := range report.Sections() {
		types[s.Name] = s
	}
	seen := map[string]bool{}
	for _, trial := range profiletest.Trials() {
		if trial.Large {
			continue
		}
		var file bytes.Buffer
		if err := trial.Write(&file); err != nil {
			t.Fatal(err)
		}
		for name, data := range sections(t, file.Bytes()) {
			s, ok := types[name]
			if !ok {
				continue
			}
			seen[name] = true
			var v any
			if err := json.Unmarshal(data, &v); err != nil {
				t.Fatalf("%s: section %s: %v", trial.Name, name, err)
			}
			if v == nil && s.Null {
				continue
			}
			compare(t, trial.Name+" "+name, v, s.Type)
		}
	}
	for name := range types {
		if !seen[name] {
			t.Errorf("no recording has a section %s", name)
		}
	}
}

// sections returns the sections of a recording's page, as a server gives them.
func sections(t *testing.T, file []byte) map[string][]byte {
	t.Helper()
	r, err := trace.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil // hostile: no page
	}
	run, err := report.Load("x.pinf", func(s profile.Sink) (*profile.Header, error) {
		return profile.Replay(r, s)
	})
	if err != nil {
		return nil
	}
	handler := report.Handler("test", []*report.Run{run})
	out := map[string][]byte{}
	for _, s := range report.Sections() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/data/0/"+s.Name, nil))
		if w.Code != http.StatusOK {
			continue
		}
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		if out[s.Name], err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// compare holds a value of JSON against the type that the page is told.
func compare(t *testing.T, at string, v any, typ reflect.Type) {
	t.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch typ.Kind() {
	case reflect.Struct:
		m, ok := v.(map[string]any)
		if !ok {
			t.Errorf("%s: %T, want an object", at, v)
			return
		}
		fields(t, at, m, typ)
		for name := range m {
			t.Errorf("%s.%s is in no type", at, name)
		}
	case reflect.Slice, reflect.Array:
		list, ok := v.([]any)
		if !ok {
			t.Errorf("%s: %T, want a list", at, v)
			return
		}
		for _, e := range list {
			if e == nil && typ.Elem().Kind() == reflect.Pointer {
				continue
			}
			compare(t, at, e, typ.Elem())
		}
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			t.Errorf("%s: %T, want a boolean", at, v)
		}
	case reflect.String:
		switch s, ok := v.(string); {
		case !ok:
			t.Errorf("%s: %T, want a string", at, v)
		case s == "" && alwaysSet[nameOf(typ)]:
			t.Errorf("%s: empty, want one of the values of %s", at, nameOf(typ))
		}
	case reflect.Map:
		if _, ok := v.(map[string]any); !ok {
			t.Errorf("%s: %T, want an object", at, v)
		}
	default:
		if _, ok := v.(float64); !ok {
			t.Errorf("%s: %T, want a number", at, v)
		}
	}
}

var g = &generator{sources: newSources(), names: map[string]reflect.Type{}}

// fields compares an object's fields, and takes those away that it knows.
func fields(t *testing.T, at string, m map[string]any, typ reflect.Type) {
	t.Helper()
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Anonymous && f.Tag.Get("json") == "" {
			fields(t, at, m, f.Type)
			continue
		}
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		name, mark, written := g.field(typ, f)
		v, there := m[name]
		delete(m, name)
		switch {
		case !there:
			if mark != "?" {
				t.Errorf("%s.%s is missing", at, name)
			}
		case v == nil:
			if !strings.HasSuffix(written, "| null") {
				t.Errorf("%s: %s.%s is null, the type says %s", at, nameOf(typ), f.Name, written)
			}
		case written == "string" && f.Type.Kind() != reflect.String:
			if _, ok := v.(string); !ok {
				t.Errorf("%s.%s: %T, want a string", at, name, v)
			}
		default:
			compare(t, at+"."+name, v, f.Type)
		}
	}
}
