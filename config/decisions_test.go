package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
)

// Every key says whether a project's file may state it, so that a new one cannot be forgotten. Where the decision is
// "tighten", guard.keep and its tests have the rule.
func TestEveryKeyHasADecisionAboutProjects(t *testing.T) {
	var walk func(at string, typ reflect.Type)
	walk = func(at string, typ reflect.Type) {
		for f := range typ.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key == "-" || !f.IsExported() {
				continue
			}
			path := strings.TrimPrefix(at+"."+key, ".")
			below := f.Type
			if below.Kind() == reflect.Map {
				below = below.Elem()
			}
			switch decision, what, _ := strings.Cut(f.Tag.Get("project"), ","); {
			case decision == "yes" || decision == "tighten" || decision == "no" && what != "":
			case decision == "" && below.Kind() == reflect.Struct:
				walk(path, below)
			default:
				t.Errorf(`%s has the tag project:%q: want "yes", "tighten" or "no,WHAT IT CANNOT DO"`, path,
					f.Tag.Get("project"))
			}
		}
	}
	walk("", reflect.TypeFor[config.Config]())
}
