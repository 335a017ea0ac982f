#[test]
fn {{ version }}_comes_back_whole() -> Result<()> {
    let hub = sample();
    hub_round_trip::<{{ spoke_path }}::{{ kind }}>(&hub)?;
    let spoke = {{ spoke_path }}::{{ kind }}::convert_from(hub)?;
    round_trip(&spoke)?;
    Ok(())
}
