// sarama, through a proxy: the errand that ../../proxy/common.py describes. Arguments: errand, address, topic, count.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const members = 2

var (
	address, topic = []string{os.Args[2]}, os.Args[3]
	count          = must(strconv.Atoi(os.Args[4]))
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func configuration() *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = "sarama"
	config.Version = sarama.V4_0_0_0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	return config
}

func send(producer sarama.SyncProducer, kind string) {
	for number := range count {
		value := sarama.StringEncoder(fmt.Sprintf("%s %d", kind, number))
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Key: value, Value: value})
		check(err)
	}
}

func produce() {
	plain := must(sarama.NewSyncProducer(address, configuration()))
	send(plain, "plain")
	plain.Close()
	config := configuration()
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = topic
	config.Net.MaxOpenRequests = 1
	transactional := must(sarama.NewSyncProducer(address, config))
	for _, kind := range []string{"committed", "aborted"} {
		check(transactional.BeginTxn())
		send(transactional, kind)
		if kind == "committed" {
			check(transactional.CommitTxn())
		} else {
			check(transactional.AbortTxn())
		}
	}
	transactional.Close()
}

// shared is what the members of the group have in common.
type shared struct {
	sync.Mutex
	seen map[string]bool
}

type member struct{ group *shared }

func (member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.group.Lock()
			m.group.seen[string(message.Value)] = true
			m.group.Unlock()
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	admin := must(sarama.NewClusterAdmin(address, configuration()))
	check(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 3}, false))
	produce()
	group := &shared{seen: map[string]bool{}}
	ctx, leave := context.WithCancel(context.Background())
	var done sync.WaitGroup
	for range members {
		done.Add(1)
		go func() {
			defer done.Done()
			consumer := must(sarama.NewConsumerGroup(address, topic, configuration()))
			for ctx.Err() == nil {
				consumer.Consume(ctx, []string{topic}, member{group})
			}
			consumer.Close()
		}()
	}
	size := 0
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		described := must(admin.DescribeConsumerGroups([]string{topic}))[0]
		group.Lock()
		complete := len(group.seen) == 2*count
		group.Unlock()
		size = len(described.Members)
		if complete && size == members && described.State == "Stable" {
			break
		}
	}
	nodes, _, err := admin.DescribeCluster()
	check(err)
	brokers := [][]any{}
	for _, node := range nodes {
		host, port, err := net.SplitHostPort(node.Addr())
		check(err)
		brokers = append(brokers, []any{node.ID(), host, must(strconv.Atoi(port))})
	}
	if _, there := must(admin.ListConsumerGroups())[topic]; !there {
		log.Fatal("the group is not listed")
	}
	must(admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic}))
	must(admin.ListConsumerGroupOffsets(topic, map[string][]int32{topic: {0, 1, 2}}))
	leave()
	done.Wait()
	check(admin.DeleteTopic(topic))
	admin.Close()
	values := []string{}
	for value := range group.seen {
		values = append(values, value)
	}
	sort.Strings(values)
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"brokers": brokers, "members": size, "consumed": values}))
}
