package redact

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// prose returns size bytes of pages, code and logs as tools return them.
func prose(tb testing.TB, size int) string {
	var b bytes.Buffer
	for _, pattern := range []string{"../../../docs/*.md", "../../../runtime/*.go", "../../../README.md"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				tb.Fatal(err)
			}
			b.Write(text)
		}
	}
	text, _ := Default().Text(b.String())
	return strings.Repeat(text, size/len(text)+1)[:size]
}

// BenchmarkJSON masks arguments of 256 bytes and results of 1 MiB: without secrets, with words and numbers only,
// and with one secret per KiB.
func BenchmarkJSON(b *testing.B) {
	const mib = 1 << 20
	result := func(text string) string { return `{"content":[{"type":"text","text":` + quote(text) + `}]}` }
	arguments := `{"path":"/srv/data/reports/2024/summary.md","query":"what is the total of all regions","limit":50,"options":{"recursive":true,"encoding":"utf-8","fields":["name","size","modified"],"order":"descending"},"note":"` + strings.Repeat("n", 38) + `"}`
	rows := `[` + strings.TrimSuffix(
		strings.Repeat(`{"id":1048576,"name":"north","total":"1234.56","at":"2024-05-06T07:08:09Z"},`, mib/76),
		",") + `]`
	dirty := strings.Repeat(prose(b, 1000)+" "+githubPAT+"\n", mib/1045)
	for _, load := range []struct{ name, raw string }{
		{"arguments/256B", arguments},
		{"clean/1MiB", result(prose(b, mib))},
		{"rows/1MiB", rows},
		{"secrets/1MiB", result(dirty)},
	} {
		b.Run(load.name, func(b *testing.B) {
			raw := []byte(load.raw)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = Default().JSON(b.Context(), raw)
			}
		})
	}
}
