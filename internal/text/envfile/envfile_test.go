package envfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadsEveryNotation(t *testing.T) {
	for _, tt := range []struct {
		name, file, content string
		want                map[string]string
		err                 string
	}{
		{"lines", "env", "# of the tracker\nexport A=\"x y\"\n\nB=a=b\nC=\n",
			map[string]string{"A": "x y", "B": "a=b", "C": ""}, ""},
		{"YAML", "s.yaml", "A: x\nB: 12\nC: true\n", map[string]string{"A": "x", "B": "12", "C": "true"}, ""},
		{"JSON", "s.json", `{"A": "x"}`, map[string]string{"A": "x"}, ""},
		{"sections", "secrets.yml", "github:\n  A: x\nother:\n  A: y\n", map[string]string{"A": "x"}, ""},
		{"another section", "secrets.yml", "other:\n  A: y\n", nil, ""},
		{"nothing", "s.yml", "# empty\n", map[string]string{}, ""},
		{"no line", "env", "A=1\ns3cret\n", nil, "env:2 is not NAME=value"},
		{"YAML in lines", "env", "A: s3cret\n", nil, "ends in .yaml"},
		{"deeper", "s.yaml", "A: [s3cret]\n", nil, "s.yaml:1: a variable is a text, not a list"},
		{"no object", "s.yaml", "- s3cret\n", nil, "s.yaml:1: want an object of variables, not a list"},
		{"a bad name", "s.yaml", "\"A B\": s3cret\n", nil, "s.yaml:1 is no variable"},
		{"broken", "s.yaml", "A: 'x\n", nil, "s.yaml:"},
		{"too large", "env", strings.Repeat("#", maxBytes+1), nil, "more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), tt.file)
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Read(path, "github")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if tt.err == "" != (err == nil) ||
				err != nil && (!strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "s3cret")) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "nothing"), ""); err == nil ||
		!strings.Contains(err.Error(), "does not exist") {
		t.Errorf("missing: %v", err)
	}
	if _, err := Read(t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("directory: %v", err)
	}
}
