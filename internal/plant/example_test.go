package plant_test

import (
	"errors"
	"fmt"

	"plantstore/internal/plant"
)

// An id is an integer by its value: 1e3 is one. Decode ignores unknown members.
func ExampleDecode() {
	p, err := plant.Decode([]byte(`{"id": 1e3, "name": "Acer campestre", "tag": "tree", "height": 15.5}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	tag, ok := p.Tag.Get()
	fmt.Println(p.ID, p.Name, tag, ok)
	// Output: 1000 Acer campestre tree true
}

func ExampleDecode_error() {
	_, err := plant.Decode([]byte(`{"id": 1.5, "name": "Acer campestre"}`))
	var refusal *plant.Error
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Code, refusal.Message)
	}
	// Output: 40013 id must be a 64-bit integer; got 1.5
}

// One error lists all faults of a plant, with the lowest of their codes.
func ExampleDecode_severalFaults() {
	_, err := plant.Decode([]byte(`{"id": "1", "tag": "tree"}`))
	var refusal *plant.Error
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Code, refusal.Message)
	}
	// Output: 40012 id must be a 64-bit integer, got "1"; name is missing, send a string
}

// The JSON of a Plant, the response to a create, has no id.
func ExamplePlant_AppendJSON() {
	p := plant.NewPlant{ID: 42, Plant: plant.Plant{Name: "Acer campestre", Tag: plant.Tagged("tree")}}
	fmt.Println(string(p.Plant.AppendJSON(nil)))
	fmt.Println(string(p.AppendJSON(nil)))
	// Output:
	// {"name":"Acer campestre","tag":"tree"}
	// {"id":42,"name":"Acer campestre","tag":"tree"}
}

func ExampleDifferences() {
	stored := plant.Plant{Name: "Acer campestre", Tag: plant.Tagged("tree")}
	fmt.Println(plant.Differences(plant.Plant{Name: "Acer campestre"}, stored))
	// Output: a plant with this id is stored with a tag
}

func ExampleCode_Status() {
	fmt.Println(plant.CodeIDNotInteger.Status(), plant.CodeQueueFull.Status())
	// Output: 400 503
}
