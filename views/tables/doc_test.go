// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const docHead = `# Tables

` + "`profinfer export --table NAME --format ndjson|csv|parquet`" + ` writes a recording as tables.
Columns may be added, never renamed.
Times are nanoseconds of CLOCK_BOOTTIME, durations nanoseconds, sizes bytes.
A value that is not known is null, never 0.

- **Parquet**: zstd, row groups of at most 65536 rows; strings are UTF-8.
- **NDJSON**: an object a line, every column in each, null where nothing is known.
- **CSV**: a line of names, comma, LF.
  A null is an empty field, an empty string ` + "`\"\"`" + `, a list is JSON.

Of a recording with counters, ` + "`ops`" + ` and ` + "`op_threads`" + ` have a column more for each, behind the others:
its event's name with _ for what is no letter or digit, as ` + "`minor_faults`" + `; an int64,
null where it is not known.
Of an operator it is the sum over its threads.

Names are untrusted input: they come from files and processes.
In NDJSON and CSV, control characters, line separators and characters that change the direction of text are
written as escape sequences (` + "`\\n`" + `, ` + "`\\u001b`" + `); in CSV a backslash is therefore written twice.
Bytes that are not UTF-8 become U+FFFD in all formats.
`

// docs/tables.md says what the structs say; -update writes it anew.
func TestDoc(t *testing.T) {
	var b strings.Builder
	b.WriteString(docHead)
	for _, tab := range all {
		cols, err := Columns(tab.name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n## %s: a row is %s\n\n| column | type | null | |\n|---|---|---|---|\n", tab.name,
			tab.doc)
		for _, c := range cols {
			null := ""
			if c.Null {
				null = "yes"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.Name, c.Type, null,
				strings.ReplaceAll(c.Doc, "|", "\\|"))
		}
	}
	path := filepath.Join("..", "..", "docs", "tables.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("%s is not what the tables are; go test -run TestDoc -update writes it", path)
	}
}
