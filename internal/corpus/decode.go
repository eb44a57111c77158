// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/pprof/profile"
	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/encoding/protowire"
)

func decodePprof(data []byte) (map[string]string, error) {
	p, err := profile.ParseData(data)
	if err != nil {
		return nil, err
	}
	return map[string]string{"": p.String()}, nil
}

func decodePerfetto(data []byte) (map[string]string, error) {
	raw, err := unzip(data)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	if !message(&b, raw, "") {
		return nil, fmt.Errorf("no protocol buffers")
	}
	return map[string]string{"": b.String()}, nil
}

// message formats a protocol buffers message as text, by field numbers; false: it is not one. Bytes are shown
// as text if they are readable, otherwise as a message, otherwise as bytes.
func message(b *strings.Builder, data []byte, indent string) bool {
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return false
		}
		data = data[n:]
		n = protowire.ConsumeFieldValue(num, typ, data)
		if n < 0 {
			return false
		}
		value := data[:n]
		data = data[n:]
		switch typ {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(value)
			fmt.Fprintf(b, "%s%d: %d\n", indent, num, v)
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(value)
			var inner strings.Builder
			switch {
			case isText(v):
				fmt.Fprintf(b, "%s%d: %q\n", indent, num, v)
			case message(&inner, v, indent+"  "):
				fmt.Fprintf(b, "%s%d:\n%s", indent, num, inner.String())
			default:
				fmt.Fprintf(b, "%s%d: %x\n", indent, num, v)
			}
		default:
			fmt.Fprintf(b, "%s%d: %x\n", indent, num, value)
		}
	}
	return true
}

func isText(v []byte) bool {
	return utf8.Valid(v) && !bytes.ContainsFunc(v, func(r rune) bool {
		return !unicode.IsPrint(r) && r != '\n'
	})
}

var section = regexp.MustCompile(`<script type="text/plain" id="s/(\d+/[^"]+)">([^<]*)</script>`)

// decodePage returns the page's sections: JSON with one value per line, otherwise bytes.
func decodePage(data []byte) (map[string]string, error) {
	all := map[string]string{}
	for _, m := range section.FindAllSubmatch(data, -1) {
		packed, err := base64.StdEncoding.DecodeString(string(m[2]))
		if err != nil {
			return nil, err
		}
		raw, err := unzip(packed)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if json.Valid(raw) {
			err = json.Indent(&b, raw, "", " ")
		} else {
			_, err = fmt.Fprintf(&b, "%x", raw)
		}
		if err != nil {
			return nil, err
		}
		all["-"+string(m[1])] = b.String()
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("a page without a section")
	}
	return all, nil
}

func unzip(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
