// SPDX-License-Identifier: Apache-2.0

package format

import "testing"

func TestFigures(t *testing.T) {
	v := func(f float64) *float64 { return &f }
	ms := UnitFor(12e6)
	for got, want := range map[string]string{
		Count(1234567): "1,234,567", Count(-1234): "-1,234", Count(999): "999", Count(int64(-123)): "-123",
		Count(uint64(1000)): "1,000",
		Plural(1, "CPU"):    "1 CPU", Plural(2000, "CPU"): "2,000 CPUs", Agree(1, "is", "are"): "is", Agree(0,
			"is", "are"): "are",
		Percent(v(0.934)): "93 %", Percent1(v(0.248)): "24.8 %", Percent(nil): "-", Percent1(nil): "-",
		Decimal(nil): "-", Rate(nil): "-",
		Decimal(v(0)): "0.0", Decimal(v(0.01)): "<0.1", Decimal(v(14.62)): "14.6", Decimal(v(1234)): "1234",
		Decimal(v(123456)): "123,456",
		Rate(v(20.13)):     "20.1", Rate(v(12345.6)): "12,346", Rate(v(0.0123)): "0.012",
		Ratio(v(0.82)): "0.82", Ratio(v(0.001)): "<0.01", Ratio(v(12345)): "12,345", Ratio(nil): "-",
		Thousands(v(12.34e6)): "12.3M", Thousands(v(999.7)): "1.00k", Thousands(v(12)): "12.0",
		Thousands(nil):  "-",
		Flops(v(206e3)): "206 kFLOP", Flops(v(1)): "1.00 FLOP", Flops(v(0)): "0 FLOP",
		Flops(v(2e18)): "2000 PFLOP", Flops(nil): "-",
		Bytes(663 << 20): "663 MiB", Bytes(999): "999 B", Bytes(1 << 50): "1024 TiB",
		Table.Parameters(1235814400): "1.24 B", Table.Parameters(494e6): "494 M", Table.Parameters(12): "12",
		Table.Parameters(999999):  "1.00 M",
		Billions(494e6, "B", "M"): "494 M", Billions(1235814400, "B", "M"): "1.24 B",
		Minutes(0): "0 ns", Minutes(999.4): "999 ns", Minutes(1500): "1.50 µs", Minutes(49.7e6): "49.7 ms",
		Minutes(999.7e6): "1.00 s", Minutes(5.9e9): "5.90 s",
		Minutes(123e9): "2 min 3 s", Calls(16): "16", Calls(1.5): "1.5",
		ms.Of(12_310_000): "12.31", ms.Of(100): "<0.01", ms.Of(0): "0.00", ms.Name: "ms",
		Sentence.Number(24.44): "24.4", Sentence.Number(339.2): "339", Sentence.Number(0.5): "0.50",
		Sentence.Number(0.012): "0.012", Sentence.Number(12345): "12,345",
		Sentence.Number(0): "0", Share(0.944): "94 %", Share(0.004): "0.4 %", Share(0): "0 %",
		Sentence.Duration(500): "500 ns", Sentence.Duration(30_300_000): "30.3 ms",
		Sentence.Duration(8250): "8.25 µs", Sentence.Duration(-5e9): "-5.00 s",
		Sentence.Bytes(663 << 20): "663 MiB", Sentence.Bytes(12): "12 B", Sentence.Bytes(1 << 40): "1.00 TiB",
		Sentence.Parameters(1_235_814_400): "1.24 B",
		Label.Bytes(4 << 10):               "4 KiB", Label.Bytes(4<<10 +
			512): "4.50 KiB", Label.Duration(12.3): "12.3 ns", Label.Duration(2e9): "2 s",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
