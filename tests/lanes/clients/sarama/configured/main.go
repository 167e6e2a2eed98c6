// Produces or consumes with settings that are not the defaults, until standard input ends; arguments: address, role
// (produce, consume), topic. What is set is written down in tests/lanes/configured.py.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/IBM/sarama"
)

type reader struct{}

func (reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
	}
	return nil
}

func main() {
	address, role, topic := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Metadata.RefreshFrequency = 3 * time.Second
	if role == "produce" {
		produce(ctx, address, topic, config)
		return
	}
	config.ClientID = "sarama-taker"
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = 11 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 1300 * time.Millisecond
	config.Consumer.Group.Rebalance.Timeout = 45678 * time.Millisecond
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRoundRobin()}
	config.Consumer.Group.InstanceId = "sarama-instance"
	config.Consumer.Offsets.AutoCommit.Interval = 1700 * time.Millisecond
	config.Consumer.Fetch.Min = 10
	config.Consumer.Fetch.Default = 234567
	config.Consumer.MaxWaitTime = 321 * time.Millisecond
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.RackID = "r1"
	group, err := sarama.NewConsumerGroup([]string{address}, "g-sarama", config)
	if err != nil {
		log.Fatal(err)
	}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{topic}, reader{}); err != nil {
			log.Print(err)
		}
	}
	group.Close()
}

func produce(ctx context.Context, address, topic string, config *sarama.Config) {
	config.ClientID = "sarama-maker"
	config.Producer.RequiredAcks = sarama.WaitForLocal
	config.Producer.Timeout = 12345 * time.Millisecond
	config.Producer.Compression = sarama.CompressionZSTD
	config.Producer.Flush.Frequency = 150 * time.Millisecond
	producer, err := sarama.NewAsyncProducer([]string{address}, config)
	if err != nil {
		log.Fatal(err)
	}
	for number := 0; ctx.Err() == nil; number++ {
		key := sarama.StringEncoder(fmt.Sprintf("sarama-maker-%04d", number))
		value := sarama.StringEncoder(fmt.Sprintf("record %d", number))
		producer.Input() <- &sarama.ProducerMessage{Topic: topic, Key: key, Value: value}
		if number < 60 {
			time.Sleep(40 * time.Millisecond)
		} else {
			time.Sleep(400 * time.Millisecond)
		}
	}
	producer.Close()
}
