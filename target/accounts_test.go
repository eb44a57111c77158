// SPDX-License-Identifier: Apache-2.0

package target

import (
	"os"
	"testing"
)

func TestParseFaults(t *testing.T) {
	a, err := parseFaults("7 (a) b) (c) S 1 2 3 4 5 6 700 8 900 10 11")
	if err != nil || a.Minor != 700 || a.Major != 900 {
		t.Errorf("%+v %v", a, err)
	}
	for _, s := range []string{"", "7 (a)", "7 (a) S 1 2 3 4 5 6 x 8 900", "7 (a) S 1 2 3 4 5 6 700 8"} {
		if a, err := parseFaults(s); err == nil {
			t.Errorf("%q was read as %+v", s, a)
		}
	}
	if n := parseRead([]byte("rchar: 1\nread_bytes: 4096\nwrite_bytes: 5\n")); n != 4096 {
		t.Error(n)
	}
	if n := parseRead([]byte("read_bytes:")); n != -1 {
		t.Error(n)
	}
}

func TestAccounts(t *testing.T) {
	p, err := ProcessAccount(os.Getpid())
	if err != nil || p.Minor <= 0 {
		t.Fatalf("%+v %v", p, err)
	}
	ts, err := ThreadAccounts(os.Getpid())
	if err != nil || len(ts) == 0 {
		t.Fatalf("%v %v", ts, err)
	}
	var sum int64
	for _, a := range ts {
		sum += a.Minor
	}
	if sum <= 0 {
		t.Errorf("threads %+v, process %+v", ts, p)
	}
}
