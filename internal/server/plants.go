package server

import (
	"net/http"

	"plantstore/internal/plant"
	"plantstore/internal/writepath"
)

// plants implements the public operation.
type plants struct {
	writePath *writepath.Service
	bodyMax   int64 // bytes
}

// create handles POST {base_url}/plants.
func (p *plants) create(c *Call) error {
	if err := checkContent(c.Request.Header); err != nil {
		return err
	}
	n, err := p.decode(c)
	if err != nil {
		return err
	}
	replayed, err := p.writePath.Create(c.span, c.Principal, n)
	if err != nil {
		return err
	}
	if replayed {
		c.Header()["Idempotent-Replayed"] = []string{"true"}
	}
	buffer := getBuffer()
	defer putBuffer(buffer)
	buffer.b = append(n.Plant.AppendJSON(buffer.b[:0]), '\n')
	c.WriteJSON(http.StatusOK, buffer.b)
	return nil
}

// decode parses the plant in the body of a request.
func (p *plants) decode(c *Call) (plant.NewPlant, error) {
	buffer := getBuffer()
	defer putBuffer(buffer)
	if err := buffer.read(c, p.bodyMax); err != nil {
		return plant.NewPlant{}, err
	}
	return plant.Decode(buffer.b)
}
