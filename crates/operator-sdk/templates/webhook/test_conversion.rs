#[test]
fn {{ version }}_comes_back_whole() -> Result<()> {
    use {{ spoke_path }}::{{ kind }} as Spoke;
    let hub = sample()?;
    hub_round_trip::<Spoke>(&hub)?;
    let spoke = Spoke::convert_from(hub)?;
    round_trip(&spoke)?;
    Ok(())
}

#[tokio::test]
async fn {{ version }}_is_served_too() -> Result<()> {
    use {{ spoke_path }}::{{ kind }} as Spoke;
    let env = start().await?;
    let objects: Api<{{ kind }}> = {{ "Api::default_namespaced" if namespaced else "Api::all" }}(env.client());
    let stored = objects.create(&PostParams::default(), &sample()?).await?;
    let name = stored.metadata.name.unwrap_or_default();

    // Objects are stored in {{ hub_version }}, converted when they are read, and converted back when they are written.
    let spokes: Api<Spoke> = {{ "Api::default_namespaced" if namespaced else "Api::all" }}(env.client());
    let changed = env
        .update(&spokes, &name, |object| {
            let annotations = object.metadata.annotations.get_or_insert_default();
            annotations.insert("changed".to_owned(), "yes".to_owned());
        })
        .await?;
    assert_eq!(changed.metadata.uid, stored.metadata.uid);
    assert_eq!(objects.get(&name).await?.spec, stored.spec);
    env.stop().await;
    Ok(())
}
