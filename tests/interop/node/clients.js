// Producers and consumers of the scenarios, closed when a scenario ends.
'use strict';

const { Consumer, Message, Producer } = require('ali-ons');

const PATIENCE_MS = 60000;
const POLL_MS = 50;
const CONSUME_FROM_FIRST_OFFSET = 'CONSUME_FROM_FIRST_OFFSET';

const silence = () => {};
const logger = { info: silence, warn: silence, error: silence, debug: silence };

class Clients {
  constructor(nameServer, prefix, input) {
    this.nameServer = nameServer;
    this.prefix = prefix;
    this.input = input;
    this.instances = 0;
    this.closings = [];
    this.shared = null;
  }

  name(what) {
    return `${this.prefix}-${what}`;
  }

  options(more) {
    this.instances += 1;
    return {
      logger,
      httpclient: {},
      nameSrv: this.nameServer,
      instanceName: `${this.prefix}-${process.pid}-${this.instances}`,
      heartbeatBrokerInterval: 1000,
      pollNameServerInteval: 1000,
      persistConsumerOffsetInterval: 500,
      ...more,
    };
  }

  async newProducer(group, more) {
    const made = new Producer(this.options({ producerGroup: group, ...more }));
    made.on('error', silence);
    await made.ready();
    return made;
  }

  /** The producer that all scenarios share. */
  async producer() {
    if (this.shared === null) {
      this.shared = await this.newProducer(this.name('producer'));
    }
    return this.shared;
  }

  async consumer(group, topic, expression, handler, more) {
    const options = { consumerGroup: group, consumeFromWhere: CONSUME_FROM_FIRST_OFFSET, ...more };
    const made = new Consumer(this.options(options));
    made.on('error', silence);
    made.subscribe(topic, expression, handler);
    this.onClose(() => made.close());
    await made.ready();
    return made;
  }

  onClose(closing) {
    this.closings.push(closing);
  }

  async closeAll() {
    for (const closing of this.closings.splice(0)) {
      await closing().catch(silence);
    }
  }
}

function message(topic, tag, key, body) {
  const made = new Message(topic, tag, body);
  made.keys = [ key ];
  return made;
}

async function eventually(condition) {
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await condition())) {
    if (Date.now() > deadline) {
      return false;
    }
    await sleep(POLL_MS);
  }
  return true;
}

function sleep(time) {
  return new Promise(resolve => setTimeout(resolve, time));
}

/** What an error says that does not depend on addresses and times. */
async function attempted(attempt) {
  try {
    return await attempt();
  } catch (error) {
    return error.code ? `code ${error.code}` : error.message.replace(/\d+\]ms.*/, '');
  }
}

const distinct = lines => JSON.stringify([ ...new Set(lines) ].sort());

module.exports = { Clients, attempted, distinct, eventually, message, sleep };
