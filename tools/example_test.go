package tools_test

import (
	"encoding/json"
	"fmt"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

func Example() {
	descriptor := json.RawMessage(`{"name":"forecast","description":"Weather of the next days.","input_schema":{
		"properties":{"city":{"type":"string","description":"City name"},"units":{"enum":["metric","imperial"]}},
		"required":["city"],"additionalProperties":false}}`)
	tool, err := tools.ParseDescriptor(descriptor)
	if err != nil {
		fmt.Println(err)
		return
	}
	catalog, diagnostics := tools.NewCatalog(1, []tools.Source{{Extension: "weather", Tools: []protocol.Tool{tool}}},
		nil)
	fmt.Println(len(diagnostics), "diagnostics")

	entry, _ := catalog.Lookup("ext_weather_forecast")
	fmt.Println(entry.Description)
	fmt.Println(entry.Validate(json.RawMessage(`{"city":"Oslo","unit":"metric"}`)))
	// Output:
	// 0 diagnostics
	// [ext:weather] Weather of the next days.
	// ext_weather_forecast: the arguments do not match the tool's input schema
	// - /unit: expected no such property, got string "metric"; did you mean units?; allowed: "city", "units" (invalid_arguments)
}
