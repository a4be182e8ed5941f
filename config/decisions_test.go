package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
)

// Every key says whether a project's file may state it, so that a new one cannot be forgotten. If the decision is
// "tighten", guard.keep and its tests have the rule. It cannot be "no" inside of maps, as guard.refuse does not look
// into their values.
func TestEveryKeyHasADecisionAboutProjects(t *testing.T) {
	var walk func(at string, typ reflect.Type, inMap bool)
	walk = func(at string, typ reflect.Type, inMap bool) {
		for f := range typ.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key == "-" || !f.IsExported() {
				continue
			}
			path := strings.TrimPrefix(at+"."+key, ".")
			below, isMap := f.Type, f.Type.Kind() == reflect.Map
			if isMap {
				below = below.Elem()
			}
			switch decision, what, _ := strings.Cut(f.Tag.Get("project"), ","); {
			case decision == "yes" || decision == "tighten" || decision == "no" && what != "" && !inMap:
			case decision == "" && below.Kind() == reflect.Struct:
				walk(path, below, inMap || isMap)
			default:
				t.Errorf(`%s has the tag project:%q: want "yes", "tighten" or, outside of maps, "no,WHAT IT CANNOT DO"`,
					path, f.Tag.Get("project"))
			}
		}
	}
	walk("", reflect.TypeFor[config.Config](), false)
}
