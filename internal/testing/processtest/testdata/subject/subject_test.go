// Package subject has tests that pass, or do what SUBJECT says.
package subject

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/exthost/exthost/internal/testing/processtest"
)

func TestMain(m *testing.M) {
	os.Exit(processtest.Sharded(m, "TestLong").Run())
}

func Test01(*testing.T) {}
func Test02(*testing.T) {}
func Test03(*testing.T) {}
func Test04(*testing.T) {}
func Test05(*testing.T) {}
func Test06(*testing.T) {}
func Test07(*testing.T) {}
func Test08(*testing.T) {}
func Test09(*testing.T) {}
func Test10(*testing.T) {}
func Test11(*testing.T) {}
func Test12(*testing.T) {}
func Test13(*testing.T) {}
func Test14(*testing.T) {}
func Test15(*testing.T) {}
func Test16(*testing.T) {}
func Test17(*testing.T) {}
func Test18(*testing.T) {}
func Test19(*testing.T) {}
func Test20(*testing.T) {}
func Test21(*testing.T) {}
func Test22(*testing.T) {}
func Test23(*testing.T) {}
func Test24(*testing.T) {}

func TestLong(*testing.T) { fmt.Print("the last line of a test") }

func TestOdd(t *testing.T) {
	switch os.Getenv("SUBJECT") {
	case "fails":
		t.Error("it fails")
	case "panics":
		panic("it panics")
	case "exits":
		os.Exit(1)
	case "exits well":
		os.Exit(0)
	case "kills":
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {}
	case "hangs":
		fmt.Println("hangs", os.Getpid())
		if err := os.WriteFile(os.Getenv("HANGING"), fmt.Append(nil, os.Getpid()), 0o600); err != nil {
			t.Fatal(err)
		}
		select {}
	case "leaves":
		cmd := exec.Command("sleep", "3600")
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(os.Getenv("HANGING"), fmt.Append(nil, cmd.Process.Pid), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSubtests(t *testing.T) {
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			t.Log("said")
		})
	}
}

func TestVerdictOfAnother(*testing.T) { fmt.Println("PASS\nFAIL") }

func TestElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := os.Stat("input"); err == nil {
		t.Error("the file of the package is here")
	}
}

func TestInput(t *testing.T) {
	text, err := os.ReadFile("input")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %s", text, os.Getenv("SUBJECT"))
}

func FuzzSeeds(f *testing.F) {
	f.Add("seed")
	f.Fuzz(func(*testing.T, string) {})
}

func BenchmarkNone(b *testing.B) {
	for b.Loop() {
	}
}

func Example() {
	fmt.Println("said")
	// Output: said
}
