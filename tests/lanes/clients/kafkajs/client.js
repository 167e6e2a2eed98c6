// Produces and consumes over TLS with kafkajs; Node itself writes the key log: node --tls-keylog=FILE client.js ...
// Arguments: address, certificate to trust, topic, records
const fs = require("fs");
const { Kafka, Partitioners, logLevel } = require("kafkajs");

const [address, certificate, topic, count] = process.argv.slice(2);
const kafka = new Kafka({
  clientId: "kafkajs",
  brokers: [address],
  ssl: { ca: [fs.readFileSync(certificate)] },
  logLevel: logLevel.ERROR,
});

async function main() {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
  await producer.connect();
  for (let number = 0; number < +count; number++)
    await producer.send({ topic, messages: [{ value: `record ${number}` }] });
  await producer.disconnect();

  const consumer = kafka.consumer({ groupId: topic });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  let seen = 0;
  await new Promise((resolve) =>
    consumer.run({ eachMessage: async () => { if (++seen == +count) resolve(); } }),
  );
  await consumer.disconnect();
  console.log(`consumed ${seen}`);
}

main().catch((error) => { console.error(error); process.exit(1); });
